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

/// Where a head that was normalised and rotated is written in parts too, as attention takes it (QkParts):
/// token t of x, of head a, as row ((first + t) / sequence·A + a, (first + t) % sequence) of them.
struct NormRopeParts {
  void* high = nullptr;      // fp16 [B·A,sequence,D], 16-byte aligned; null: no parts
  int64_t low = 0;           // the low parts lie so many numbers behind the high ones
  float* bound = nullptr;    // [B·A]: written with a sequence's first token
  float* largest = nullptr;  // [B·A]: raised to the largest number; infinite where one is not finite
  int64_t sequence = 0, first = 0;
};

/// Whether norm_rope_cuda() writes parts of heads of so many fp32 numbers, where x, the norm's weights and
/// the angles are aligned to 16 bytes.
constexpr bool norm_rope_splits(int64_t dim) {
  return dim == 64 || dim == 128;
}

/// Row r of `out` is the mean of what normalising and rotating makes of the rows members[offsets[r]], ...,
/// members[offsets[r + 1] - 1] of x, or zeros. Rows of T, OperandType; pointers are aligned to 16 bytes, the
/// strides fill them.
struct NormRopeMean {
  NormRopeParams<float> turn;        // of x
  const void* x = nullptr;           // [turn.tokens < 2^31,A,D]
  const int64_t* members = nullptr;  // [N']
  const int64_t* offsets = nullptr;  // [rows+1]
  void* out = nullptr;               // [rows,A,D]
  int64_t rows = 0;
  int64_t out_stride = 0;  // from one row of `out` to the next, in numbers
};

/// Whether norm_rope_mean_cuda() takes heads of so many numbers.
constexpr bool norm_rope_mean_takes(int64_t dim) {
  return dim == 16 || dim == 32 || dim == 64 || dim == 128;
}

/// stream is a cudaStream_t. Sums are fp32, in an order that depends on the members alone: the same on every
/// run. Throws std::runtime_error on launch failure.
void norm_rope_mean_cuda(OperandType type, const NormRopeMean& means, void* stream);

/// x [T,A,D] on the current CUDA device, contiguous but for its tokens; stream is a cudaStream_t. parts: of
/// fp32 alone, where norm_rope_splits(). Throws std::runtime_error on launch failure.
void norm_rope_cuda(OperandType type, void* x, const NormRopeParams<float>& params, void* stream,
                    const NormRopeParts& parts = {});
void norm_rope_cuda(void* x, const NormRopeParams<double>& params, void* stream);

}  // namespace vggt
