#pragma once
// The operands of split and turbo: fp32 numbers as one or two of fp16, whose products tensor cores sum up.

#include <cuda_runtime_api.h>

#include "attention/cuda/cuda_problem.h"

namespace vggt {

// Note [Splitting]: x·2^e = high + low, where e takes a head's largest |x| to [2^14, 2^15): high has the
// first 11 bits, low the next 11. What is lost is 2^-22 of x, or 2^-40 of the head's largest where that is
// more. With few terms in a product that shows beside fp32's rounding where logits are large: a head is
// refused from 2^8 on. And weights, fp16 pairs as well, have errors up to 2^-41, which show where all weight
// is on a row of v that is small: a head with a row below 2^-12 of its largest is refused, and with N keys,
// whose errors may add up, below N·2^-23, for an error of at most 2^-18.
//
// Turbo takes high alone. It has the 11 bits of TF32 down to 2^-28 of the head's largest; what is smaller has
// an error of 2^-40 of the largest, where TF32 would still have 2^-11 of the number itself. In a logit that
// shows from 2^25 on (refused). In an output it shows where rows of v differ as much, but before it does the
// weights, fp16 as well, see Note [Lift]: a head with a row of v below 2^-16 or N·2^-23 of its largest is
// refused.

/// Where the parts lie. q, k, v: [count,B·A,N,D], high before low.
struct SplitParts {
  int count = 2;  // or 1
  void *q = nullptr, *k = nullptr, *v = nullptr;
  float* largest = nullptr;  // [3,B·A] of |q|, |k| and |v|, of finite numbers
  int* refused = nullptr;    // [B·A]; 1 where a head's parts are no good, see Note [Splitting]
};

/// Bytes of memory for the parts of this call, and where they lie in it.
int64_t split_bytes(const CudaProblem& p, int count);
SplitParts split_parts(const CudaProblem& p, int count, void* memory);

/// The call on its parts, for the heads that are not refused; and on its own numbers, for those that are.
CudaProblem of_parts(const CudaProblem& p, const SplitParts& parts);
CudaProblem of_refused(const CudaProblem& p, const SplitParts& parts);

/// Fills the parts. p: fp32.
cudaError_t prepare_split(const CudaProblem& p, const SplitParts& parts, cudaStream_t stream);

}  // namespace vggt
