#pragma once
// x·Wᵀ + b in fp32's accuracy on Hopper's tensor cores: each fp32 product is three of fp16. Free of torch.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vggt {

// Note [Splitting rows]: x·2^e = high + low, both fp16, where e takes the row's largest |x| to [2^14, 2^15).
// What is lost of x is at most 2^-22·|x| or 2^-39 of the row's largest, whichever is more. Low·low, left out,
// is at most 2^-22 of a product. Tensor cores cut off what they add up, at most 2^-23 of the sum for each of
// the 17 addends of an instruction. So a chain of them is 64 columns long, the small products first, which
// leaves four instructions that count, and chains are added up in fp32. With X = Σ|x·w| of an output,
//   |y - exact| <= (3·2^-22 + 68·2^-23 + columns/64·2^-24)·X + 2^-39·(max|x|·Σ|w| + max|w|·Σ|x|),
// where fp32 alone has columns·2^-24·X: more from 256 columns on. The last term is what fp32 has not. It
// counts only where a row's largest numbers meet zeros and the result is of numbers 2^17 times smaller.

/// Rows of fp32 numbers, of which GELU (exact) is taken first where asked for.
struct FloatRows {
  const float* data = nullptr;  // [rows,columns]
  int64_t stride = 0;           // of rows; a multiple of 4, as is columns; data is aligned to 16 bytes
  bool gelu = false;
};

/// A matrix as pairs of fp16, see Note [Splitting rows] and split_layout.h.
struct SplitMatrix {
  void* parts = nullptr;     // [rows, split_width(columns)]
  int* exponents = nullptr;  // [rows]; kNotFinite where a row has an infinity or a NaN
  int rows = 0, columns = 0;
};

/// out = x·weightᵀ + bias
struct SplitGemm {
  SplitMatrix x, weight;        // [M,K], [N,K], N even
  const float* bias = nullptr;  // [N], aligned to 8 bytes
  float* out = nullptr;         // [M,N], aligned to 8 bytes
};

inline constexpr int kMostSplitColumns = 4096;

/// Memory for the parts and exponents of a matrix, aligned to 256 bytes, and the matrix in it.
int64_t split_matrix_bytes(int64_t rows, int64_t columns);
SplitMatrix split_matrix(int rows, int columns, void* memory);

/// Fills a matrix of at most kMostSplitColumns columns.
cudaError_t split_rows(const FloatRows& x, const SplitMatrix& to, cudaStream_t stream);

/// Rows of x that are not finite come out wrong and are left to repair_rows(). The weight is finite.
/// blocks: 1, or 2 that share what they load of the weight. Only where sm90a_built().
cudaError_t launch_split_gemm_sm90(const SplitGemm& gemm, int blocks, cudaStream_t stream);

/// Computes the rows of out anew whose x is not finite, in fp32 arithmetic. x: of which gemm.x was made.
cudaError_t repair_rows(const FloatRows& x, const SplitGemm& gemm, cudaStream_t stream);

}  // namespace vggt
