#pragma once
// The operands of the split kernel: fp32 numbers as pairs of fp16, whose products the tensor cores sum up.

#include "attention/cuda_problem.h"

namespace vggt {

// Note [Splitting]: x·2^e = high + low, where e takes a head's largest |x| to [2^14, 2^15): high has the
// first 11 bits, low the next 11. What is lost is 2^-22 of x, or 2^-40 of the head's largest where that is
// more. The latter counts where logits may be large, since other rows' may be small (a head is refused from
// 2^16 on), and in an output where all weight is on rows of v that are small: a head with a row below 2^-12
// of its largest is refused.

/// Where the parts lie. high and low: [2,B·A,N,D].
struct SplitParts {
  void *q = nullptr, *k = nullptr, *v = nullptr;
  float* largest = nullptr;  // [3,B·A] of |q|, |k| and |v|, of finite numbers
  int* refused = nullptr;    // [B·A]; 1 where a head's parts are no good, see Note [Splitting]
};

/// Bytes of memory for the parts of this call.
int64_t split_bytes(const CudaProblem& p);
SplitParts split_parts(const CudaProblem& p, void* memory);

/// The call on its parts, for the heads that are not refused; and on its own numbers, for those that are.
CudaProblem of_parts(const CudaProblem& p, const SplitParts& parts);
CudaProblem of_refused(const CudaProblem& p, const SplitParts& parts);

/// Fills the parts. p: fp32.
cudaError_t prepare_split(const CudaProblem& p, const SplitParts& parts, cudaStream_t stream);

/// fp32 attention at fp32's accuracy, of parts. Only where sm90a_built().
cudaError_t launch_split_sm90(const CudaProblem& p, cudaStream_t stream);

}  // namespace vggt
