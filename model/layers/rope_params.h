#pragma once
#include <cstdint>

#include "model/layers/operand_type.h"

namespace vggt {

/// What the kernels of norm_rope_ need; free of torch so that CUDA files compile fast.
/// State is float for fp32, bf16 and fp16 values, double for fp64.
template <typename State>
struct NormRopeParams {
  const State *weight, *bias;  // [D]
  const State *cosine, *sine;  // [positions, D/4]
  int64_t tokens, heads, head_dim;
  int64_t token_stride;  // elements from one token to the next
  int64_t tokens_per_frame, special_tokens, columns;
  State eps;
};

/// x [T,A,D] on the current CUDA device, contiguous but for its tokens; stream is a cudaStream_t. Throws
/// std::runtime_error on launch failure.
void norm_rope_cuda(OperandType type, void* x, const NormRopeParams<float>& params, void* stream);
void norm_rope_cuda(void* x, const NormRopeParams<double>& params, void* stream);

}  // namespace vggt
