#pragma once
// The row-wise passes of a transformer block on a GPU: each reads and writes a number once. Free of torch.

#include <cstdint>

#include "model/layers/operand_type.h"
#include "model/layers/split_gemm.h"

namespace vggt {

/// What follows the pass over a row of x.
enum class RowNorm {
  none,
  layer,  // y = LayerNorm(x)
  unit,   // y = LayerNorm(x), of unit length
};

/// One pass over x [R,C] fp32: sum = x + gamma·added, where there is `added`; then y is made from the sum,
/// or, without `added`, from x's rows row_of. C is a multiple of 4 and at most kMostRowColumns; all pointers
/// are aligned to 16 bytes; T is OperandType.
struct RowPass {
  const float* x = nullptr;         // [R,C], or [N,C] with row_of and without `added`
  float* sum = nullptr;             // [R,C], with `added`; may be x
  const void* added = nullptr;      // [R,C] of T, or [M,C] with row_of
  const float* gamma = nullptr;     // [C]
  const int64_t* row_of = nullptr;  // [R]: rows of `added`, or of x
  const float* weight = nullptr;    // [C]
  const float* bias = nullptr;      // [C]
  void* y = nullptr;                // [R,C] of T; may be `added`, without row_of
  SplitMatrix parts;                // in the place of y, of fp32 and RowNorm::layer, where it has memory
  int64_t rows = 0;
  int columns = 0;
  float eps = 0;
};

inline constexpr int kMostRowColumns = 4096;

/// stream is a cudaStream_t. Statistics are fp32, of a row in registers. Throws std::runtime_error where the
/// launch fails.
void row_pass_cuda(OperandType type, RowNorm norm, const RowPass& pass, void* stream);

/// x = GELU(x), in the precision of bf16 and fp16, which alone it takes: so many numbers, a multiple of 8,
/// aligned to 16 bytes.
void gelu_cuda(OperandType type, void* x, int64_t count, void* stream);

}  // namespace vggt
