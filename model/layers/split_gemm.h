#pragma once
// x·Wᵀ + b in fp32's accuracy on Hopper's tensor cores: each fp32 product is three of fp16. Free of torch.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/layers/joined_rows.h"

namespace vggt {

// Note [Splitting rows]: x·2^e = high + low, both fp16, where e takes the row's largest |x| to [2^14, 2^15).
// The error of x is at most 2^-22·|x| or 2^-39 of the row's largest, whichever is more. The product low·low
// is left out; it is at most 2^-22 of the whole product. Tensor cores cut off bits of what they add up: at
// most 2^-23 of the sum for each of the 17 addends of an instruction. Therefore chains of instructions are
// short, 64 columns, and begin with the small products, so that four instructions of a chain cut anything
// that counts; fp32 adds up the chains. With X = Σ|x·w| of an output,
//   |y - exact| <= (3·2^-22 + 68·2^-23 + columns/64·2^-24)·X + 2^-39·(max|x|·Σ|w| + max|w|·Σ|x|),
// where fp32 alone has columns·2^-24·X, which is more from 256 columns on. fp32 has nothing like the last
// term. That term matters only where a row's largest numbers are multiplied by zeros and the result comes
// from numbers 2^17 times smaller.

/// Rows of fp32 numbers, of which GELU (exact) is taken first where asked for.
struct FloatRows {
  const float* data = nullptr;  // [rows,columns]
  int64_t stride = 0;           // of rows; a multiple of 4, as is columns; data is aligned to 16 bytes
  bool gelu = false;
};

/// A matrix as pairs of fp16: see Note [Splitting rows] and split_layout.h.
struct SplitMatrix {
  void* parts = nullptr;     // [rows, split_width(columns)]
  int* exponents = nullptr;  // [rows]; kNotFinite where a row has an infinity or a NaN
  int rows = 0, columns = 0;
};

/// A part of a map [frames,rows,columns,channels], fp32, contiguous and aligned to 16 bytes, with zeros
/// around it: pixels [first_row, first_row + rows) × [first_column, first_column + columns) of each frame,
/// where negative ones and those beyond the end are zeros.
struct FloatMap {
  const float* data = nullptr;
  int map_rows = 0, map_columns = 0;
  int first_row = 0, first_column = 0, frames = 0, rows = 0, columns = 0;
  const uint32_t* largest = nullptr;  // [frames], on the device: see largest_of_maps()
};

/// out = x·weightᵀ + bias. With taps, a convolution's: x are the pixels of maps [frames,tap_rows,tap_row],
/// K = taps²·(columns of x), and the pixel that row r multiplies with columns (i·taps + j)·(columns of x) is
/// r + i·tap_row + j. `out` then has the windows within a map alone, tap_row - taps + 1 in a row, those of a
/// frame from its row frame·out_frame on.
struct SplitGemm {
  SplitMatrix x, weight;        // [M,K], [N,K], N even
  const float* bias = nullptr;  // [N], aligned to 8 bytes
  float* out = nullptr;         // [M,N], aligned to 8 bytes
  int taps = 1;                 // more than one: the columns of x are a multiple of 128
  int tap_rows = 0, tap_row = 0;
  int64_t out_frame = 0;
};

inline constexpr int kMostSplitColumns = 4096;

/// Memory for the parts and exponents of a matrix, aligned to 256 bytes, and the matrix in it.
int64_t split_matrix_bytes(int64_t rows, int64_t columns);
SplitMatrix split_matrix(int rows, int columns, void* memory);

/// Fills a matrix of at most kMostSplitColumns columns.
cudaError_t split_rows(const FloatRows& x, const SplitMatrix& to, cudaStream_t stream);
/// The same of fp32 rows, the columns of each part a multiple of 4.
cudaError_t split_rows(const JoinedRows& x, const SplitMatrix& to, cudaStream_t stream);

/// Of each of so many maps of `numbers` numbers, a multiple of 4, the largest finite |x|, as its bits, into
/// largest [frames]. maps: contiguous, aligned to 16 bytes.
cudaError_t largest_of_maps(const float* maps, int frames, int64_t numbers, uint32_t* largest,
                            cudaStream_t stream);
/// Fills the matrix of the pixels [frames·rows·columns, channels], channels a multiple of 32. What is not
/// finite has a NaN among its parts, and so have its products.
cudaError_t split_map(const FloatMap& x, const SplitMatrix& to, cudaStream_t stream);

/// Computes rows of x that are not finite wrongly; repair_rows() mends them. The weight must be finite.
/// blocks: 1, or 2 that share what they load of the weight. Only where sm90a_built().
cudaError_t launch_split_gemm_sm90(const SplitGemm& gemm, int blocks, cudaStream_t stream);

/// Computes again, in fp32 arithmetic, the rows of out whose x is not finite. x: what gemm.x was made from;
/// without data such rows become NaN.
cudaError_t repair_rows(const FloatRows& x, const SplitGemm& gemm, cudaStream_t stream);
cudaError_t repair_rows(const JoinedRows& x, const SplitGemm& gemm, cudaStream_t stream);

}  // namespace vggt
