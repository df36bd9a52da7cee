// Splits fp32 rows into pairs of fp16, see Note [Splitting rows], and computes in fp32 the rows that such
// pairs cannot hold.
#include <cuda_fp16.h>

#include <climits>

#include "model/layers/row_values.cuh"
#include "model/layers/split_gemm.h"
#include "model/layers/split_store.cuh"

namespace vggt {
namespace {

constexpr int kThreads = 256;  // of a block
constexpr int kMapChunk = 8 * kThreads;
constexpr uint32_t kInfinityBits = 0x7F800000u;
constexpr int kUnits = 8;  // fours that a thread keeps in registers between its two passes

__device__ __forceinline__ float gelu(float x) {
  return x * 0.5f * (1 + erff(x * 0.70710678118654752f));
}

/// Where four numbers lie that begin at a multiple of four.
__device__ __forceinline__ const float* place_of(const FloatRows& x, int64_t row, int column) {
  return x.data + row * x.stride + column;
}
__device__ __forceinline__ const float* place_of(const JoinedRows& x, int64_t row, int column) {
  int part = 0;
  while (column >= x.begins[part + 1]) ++part;
  const int begin = x.begins[part];
  return static_cast<const float*>(x.data[part]) + row * (x.begins[part + 1] - begin) + column - begin;
}

template <int kWarps, bool kGelu, class Rows>
__global__ void __launch_bounds__(kThreads)
    split_rows_kernel(const __grid_constant__ Rows x, const SplitMatrix to) {
  constexpr int kOfRow = 32 * kWarps;  // threads
  const int place = threadIdx.x % kOfRow;
  const int64_t wanted = int64_t{blockIdx.x} * (kThreads / kOfRow) + threadIdx.x / kOfRow;
  const int64_t row =
      wanted < to.rows ? wanted
                       : to.rows - 1;  // threads beyond the last row repeat it, as all must reach the barrier
  __shared__ uint32_t of_warp[kThreads / 32];
  float four[kUnits][4];
  uint32_t most = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int column = 4 * (place + u * kOfRow);
#pragma unroll
    for (int i = 0; i < 4; ++i) four[u][i] = 0;
    if (column < to.columns) load_values(place_of(x, row, column), four[u]);
    if constexpr (kGelu) {
#pragma unroll
      for (int i = 0; i < 4; ++i) four[u][i] = gelu(four[u][i]);
    }
    most = max(most, largest_bits(four[u]));
  }
  const int exponent = row_exponent(largest_of_row<kWarps>(most, of_warp));
  if (place == 0) to.exponents[row] = exponent;
  const float up = row_factor(exponent);
  const int width = static_cast<int>(split_width(to.columns));
  __half* out = static_cast<__half*>(to.parts) + row * width;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int column = 4 * (place + u * kOfRow);
    if (column < width / 2) store_parts(four[u], up, out + split_column(column));
  }
}

/// A block for kMapChunk fours of a map.
__global__ void __launch_bounds__(kThreads)
    largest_map_kernel(const float* maps, const int64_t fours, const int chunks, uint32_t* largest) {
  const int64_t frame = blockIdx.x / chunks, first = int64_t{blockIdx.x % chunks} * kMapChunk;
  const int64_t end = min(fours, first + kMapChunk);
  const float* map = maps + frame * fours * 4;
  uint32_t most = 0;
  for (int64_t at = first + threadIdx.x; at < end; at += kThreads) {
    float four[4];
    load_values(map + 4 * at, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t bits = __float_as_uint(four[i]) & 0x7FFFFFFFu;
      most = max(most, bits < kInfinityBits ? bits : 0);
    }
  }
  most = largest_of_row<1>(most, nullptr);
  if (threadIdx.x % 32 == 0 && most > 0) atomicMax(largest + frame, most);
}

/// A thread for four channels of a pixel.
__global__ void __launch_bounds__(kThreads)
    split_map_kernel(const FloatMap x, const SplitMatrix to, const int64_t count) {
  const int fours = to.columns / 4;
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= count) return;
  const auto row = static_cast<int>(at / fours);
  const int channel = static_cast<int>(at % fours) * 4;
  const int frame = row / (x.rows * x.columns), place = row % (x.rows * x.columns);
  const int y = x.first_row + place / x.columns, from = x.first_column + place % x.columns;
  const int exponent = row_exponent(x.largest[frame]);
  if (channel == 0) to.exponents[row] = exponent;
  float four[4] = {};
  if (y >= 0 && y < x.map_rows && from >= 0 && from < x.map_columns) {
    const int64_t pixel = (int64_t{frame} * x.map_rows + y) * x.map_columns + from;
    load_values(x.data + pixel * to.columns + channel, four);
  }
  __half* out = static_cast<__half*>(to.parts) + row * split_width(to.columns);
  store_parts(four, __uint_as_float(power_of_two_bits(exponent)), out + split_column(channel));
}

template <int kWarps, bool kGelu, class Rows>
void launch_split_rows(const Rows& x, const SplitMatrix& to, cudaStream_t stream) {
  constexpr int kRows = kThreads / (32 * kWarps);
  const unsigned blocks = (static_cast<unsigned>(to.rows) + kRows - 1) / kRows;
  split_rows_kernel<kWarps, kGelu><<<blocks, kThreads, 0, stream>>>(x, to);
}

template <bool kGelu, class Rows>
cudaError_t split(const Rows& x, const SplitMatrix& to, cudaStream_t stream) {
  constexpr int kOfWarp = 32 * 4 * kUnits;  // columns
  if (to.columns > kMostSplitColumns) return cudaErrorInvalidValue;
  if (to.columns <= kOfWarp) {
    launch_split_rows<1, kGelu>(x, to, stream);
  } else {
    launch_split_rows<kMostSplitColumns / kOfWarp, kGelu>(x, to, stream);
  }
  return cudaGetLastError();
}

__device__ float number(const FloatRows& x, int64_t row, int column) {
  const float value = *place_of(x, row, column);
  return x.gelu ? gelu(value) : value;
}
__device__ float number(const JoinedRows& x, int64_t row, int column) {
  return *place_of(x, row, column);
}

template <class Rows>
__device__ float dot(const Rows& x, const SplitMatrix& weight, int64_t row, int column) {
  const __half* b = static_cast<const __half*>(weight.parts) + column * split_width(weight.columns);
  const float down = __uint_as_float(power_of_two_bits(-weight.exponents[column]));
  float sum = 0;
  for (int i = 0; i < weight.columns; ++i) {
    const __half* pair = b + split_column(i);
    const float w = (__half2float(pair[0]) + __half2float(pair[kSplitColumns])) * down;
    sum = fmaf(number(x, row, i), w, sum);
  }
  return sum;
}

__device__ bool is_known(const FloatRows& x) {
  return x.data != nullptr;
}
__device__ bool is_known(const JoinedRows& /*x*/) {
  return true;
}

template <class Rows>
__global__ void __launch_bounds__(kThreads)
    repair_rows_kernel(const __grid_constant__ Rows x, const SplitGemm gemm) {
  const int64_t first = int64_t{blockIdx.x} * kThreads, mine = first + threadIdx.x;
  if (!__syncthreads_or(mine < gemm.x.rows && gemm.x.exponents[mine] == kNotFinite)) return;
  const int64_t end = min(first + kThreads, static_cast<int64_t>(gemm.x.rows));
  for (int64_t row = first; row < end; ++row) {
    if (gemm.x.exponents[row] != kNotFinite) continue;
    for (int column = threadIdx.x; column < gemm.weight.rows; column += kThreads) {
      const float product = is_known(x) ? dot(x, gemm.weight, row, column) : NAN;
      gemm.out[row * gemm.weight.rows + column] = product + gemm.bias[column];
    }
  }
}

template <class Rows>
cudaError_t repair(const Rows& x, const SplitGemm& gemm, cudaStream_t stream) {
  const unsigned blocks = (static_cast<unsigned>(gemm.x.rows) + kThreads - 1) / kThreads;
  repair_rows_kernel<<<blocks, kThreads, 0, stream>>>(x, gemm);
  return cudaGetLastError();
}

int64_t parts_bytes(int64_t rows, int64_t columns) {
  return (rows * split_width(columns) * static_cast<int64_t>(sizeof(__half)) + 255) / 256 * 256;
}

}  // namespace

int64_t split_matrix_bytes(int64_t rows, int64_t columns) {
  return parts_bytes(rows, columns) + rows * static_cast<int64_t>(sizeof(int));
}

SplitMatrix split_matrix(int rows, int columns, void* memory) {
  return {memory, reinterpret_cast<int*>(static_cast<char*>(memory) + parts_bytes(rows, columns)), rows,
          columns};
}

cudaError_t split_rows(const FloatRows& x, const SplitMatrix& to, cudaStream_t stream) {
  return x.gelu ? split<true>(x, to, stream) : split<false>(x, to, stream);
}
cudaError_t split_rows(const JoinedRows& x, const SplitMatrix& to, cudaStream_t stream) {
  return split<false>(x, to, stream);
}

cudaError_t largest_of_maps(const float* maps, int frames, int64_t numbers, uint32_t* largest,
                            cudaStream_t stream) {
  const int64_t fours = numbers / 4, chunks = (fours + kMapChunk - 1) / kMapChunk;
  if (frames == 0 || chunks == 0) return cudaSuccess;
  if (numbers % 4 != 0 || chunks * frames > INT_MAX) return cudaErrorInvalidValue;
  const cudaError_t error =
      cudaMemsetAsync(largest, 0, static_cast<size_t>(frames) * sizeof(uint32_t), stream);
  if (error != cudaSuccess) return error;
  largest_map_kernel<<<static_cast<unsigned>(chunks * frames), kThreads, 0, stream>>>(
      maps, fours, static_cast<int>(chunks), largest);
  return cudaGetLastError();
}

cudaError_t split_map(const FloatMap& x, const SplitMatrix& to, cudaStream_t stream) {
  if (to.columns % kSplitColumns != 0) return cudaErrorInvalidValue;  // or columns would stay unwritten
  const int64_t count = int64_t{to.rows} * (to.columns / 4), blocks = (count + kThreads - 1) / kThreads;
  split_map_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(x, to, count);
  return cudaGetLastError();
}

cudaError_t repair_rows(const FloatRows& x, const SplitGemm& gemm, cudaStream_t stream) {
  return repair(x, gemm, stream);
}
cudaError_t repair_rows(const JoinedRows& x, const SplitGemm& gemm, cudaStream_t stream) {
  return repair(x, gemm, stream);
}

}  // namespace vggt
