#pragma once
// The operands of split and turbo: each fp32 number as one or two parts in fp16, whose products tensor cores
// add up.

#include <cuda_runtime_api.h>

#include "attention/cuda/cuda_problem.h"

namespace vggt {

// Note [Splitting]: x·2^e = high + low, where e takes a head's largest |x| to [2^14, 2^15), or a bound of it
// where parts are made before the largest is known (of q and k: model/layers/rope.h, of v: layer_norm.h
// there). high has the first 11 bits of x, low the next 11. The error is 2^-22 of x, or 2^-39 of the head's
// largest (or bound) where that is more. Beside fp32's own rounding this error shows in three cases, and a
// head with such numbers is refused:
// - Large logits, when a product has few terms: a head is refused where scale·|q|·|k| reaches 2^8, by their
//   exponents, so at 2^10 at the latest.
// - Bounds that are too loose: a head is refused where one is more than 2^11 times the largest |q| or |k|, or
//   2^21 times the largest number of some row of v; also where a |v| exceeds its bound.
// - Small rows of v. Weights are pairs of fp16 too, with errors up to 2^-40, which show where all weight lies
//   on a small row of v. A head is refused where a row is below 2^-12 of the head's largest, or, since the
//   errors of N keys may add up, below N·2^-23 of it. The error is then at most 2^-17.
//
// Turbo takes high alone. high has the 11 bits of TF32 down to 2^-28 of the head's largest. A smaller number
// has an error of 2^-39 of the largest, where TF32 would still have 2^-11 of the number itself. Such errors
// show in logits from 2^25 on, where a head is refused, by exponents as above. The errors of turbo's weights, fp16 too (see Note
// [Lift]), show in the output earlier than those of v: a head is refused where a row of v is below 2^-16 or
// N·2^-23 of the head's largest.

/// The memory of the parts. q, k, v: [count,B·A,N,D], high before low; q and k may be the call's own.
struct SplitParts {
  int count = 2;  // or 1
  void *q = nullptr, *k = nullptr, *v = nullptr;
  float* largest = nullptr;  // [3,B·A] of |q|, |k| and |v|, of finite numbers, or bounds of them
  int* refused = nullptr;    // [B·A]; 1 where a head is refused, see Note [Splitting]
  // [2,B·A]: the largest number of the largest row of v, of the smallest one; written where q and k are ready
  float* rows_of_v = nullptr;
};

/// Bytes of memory for the parts of this call that are not ready, and all parts, these in that memory. count:
/// 2 where some are ready.
int64_t split_bytes(const CudaProblem& p, int count);
SplitParts split_parts(const CudaProblem& p, int count, void* memory);

/// The call on its parts for the heads that are not refused, and on its own numbers for the refused ones.
CudaProblem of_parts(const CudaProblem& p, const SplitParts& parts);
CudaProblem of_refused(const CudaProblem& p, const SplitParts& parts);

/// Computes the parts that are not ready and decides which heads are refused. p: fp32.
cudaError_t prepare_split(const CudaProblem& p, const SplitParts& parts, cudaStream_t stream);

}  // namespace vggt
