// Splits fp32 rows into pairs of fp16, see Note [Splitting rows], and computes in fp32 the rows that such
// pairs cannot hold.
#include <cuda_fp16.h>

#include "attention/cuda/split_pair.cuh"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"

namespace vggt {
namespace {

constexpr int kThreads = 256;  // of a block
constexpr int kUnits = 8;      // float4 that a thread keeps in registers between its two passes

__device__ __forceinline__ float gelu(float x) {
  return x * 0.5f * (1 + erff(x * 0.70710678118654752f));
}

template <bool kGelu>
__device__ __forceinline__ float4 load(const float* from) {
  float4 x = *reinterpret_cast<const float4*>(from);
  if constexpr (kGelu) x = {gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w)};
  return x;
}

// As bits, which are ordered as the numbers are where none is negative; infinity and NaN are above all
// others.
__device__ __forceinline__ uint32_t largest_of(float4 x) {
  auto bits = [](float f) { return __float_as_uint(f) & 0x7FFFFFFFu; };
  return max(max(bits(x.x), bits(x.y)), max(bits(x.z), bits(x.w)));
}

__device__ __forceinline__ void store_parts(float4 x, float up, __half* to) {
  const SplitPair a = split_pair(x.x * up, x.y * up), b = split_pair(x.z * up, x.w * up);
  __align__(8) const __half2 high[2] = {a.high, b.high}, low[2] = {a.low, b.low};
  *reinterpret_cast<uint2*>(to) = reinterpret_cast<const uint2&>(high);
  *reinterpret_cast<uint2*>(to + kSplitColumns) = reinterpret_cast<const uint2&>(low);
}

/// The largest over the kWarps neighbouring warps that share a row.
template <int kWarps>
__device__ __forceinline__ uint32_t largest_of_row(uint32_t most) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) most = max(most, __shfl_xor_sync(~0u, most, lanes));
  if constexpr (kWarps > 1) {
    __shared__ uint32_t of_warp[kThreads / 32];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) of_warp[warp] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) most = max(most, of_warp[warp / kWarps * kWarps + i]);
  }
  return most;
}

template <int kWarps, bool kGelu>
__global__ void __launch_bounds__(kThreads) split_rows_kernel(const FloatRows x, const SplitMatrix to) {
  constexpr int kOfRow = 32 * kWarps;  // threads
  const int place = threadIdx.x % kOfRow;
  const int64_t wanted = int64_t{blockIdx.x} * (kThreads / kOfRow) + threadIdx.x / kOfRow;
  const int64_t row =
      wanted < to.rows ? wanted
                       : to.rows - 1;  // threads beyond the last row repeat it, as all must reach the barrier
  const float* from = x.data + row * x.stride;
  float4 four[kUnits];
  uint32_t most = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int column = 4 * (place + u * kOfRow);
    four[u] = column < to.columns ? load<kGelu>(from + column) : float4{};
    most = max(most, largest_of(four[u]));
  }
  const int exponent = row_exponent(largest_of_row<kWarps>(most));
  if (place == 0) to.exponents[row] = exponent;
  const float up = exponent == kNotFinite ? 0 : __uint_as_float(power_of_two_bits(exponent));
  const int width = static_cast<int>(split_width(to.columns));
  __half* out = static_cast<__half*>(to.parts) + row * width;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int column = 4 * (place + u * kOfRow);
    if (column < width / 2) store_parts(four[u], up, out + split_column(column));
  }
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
  const int exponent = x.exponents[frame];
  if (channel == 0) to.exponents[row] = exponent;
  float4 four{};
  if (y >= 0 && y < x.map_rows && from >= 0 && from < x.map_columns) {
    const int64_t pixel = (int64_t{frame} * x.map_rows + y) * x.map_columns + from;
    four = *reinterpret_cast<const float4*>(x.data + pixel * to.columns + channel);
  }
  __half* out = static_cast<__half*>(to.parts) + row * split_width(to.columns);
  store_parts(four, __uint_as_float(power_of_two_bits(exponent)), out + split_column(channel));
}

template <int kWarps>
void launch_split_rows(const FloatRows& x, const SplitMatrix& to, cudaStream_t stream) {
  constexpr int kRows = kThreads / (32 * kWarps);
  const unsigned blocks = (static_cast<unsigned>(to.rows) + kRows - 1) / kRows;
  const auto kernel = x.gelu ? split_rows_kernel<kWarps, true> : split_rows_kernel<kWarps, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(x, to);
}

__device__ float dot(const FloatRows& x, const SplitMatrix& weight, int64_t row, int column) {
  const float* a = x.data + row * x.stride;
  const __half* b = static_cast<const __half*>(weight.parts) + column * split_width(weight.columns);
  const float down = __uint_as_float(power_of_two_bits(-weight.exponents[column]));
  float sum = 0;
  for (int i = 0; i < weight.columns; ++i) {
    const __half* pair = b + split_column(i);
    const float w = (__half2float(pair[0]) + __half2float(pair[kSplitColumns])) * down;
    sum = fmaf(x.gelu ? gelu(a[i]) : a[i], w, sum);
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads) repair_rows_kernel(const FloatRows x, const SplitGemm gemm) {
  const int64_t first = int64_t{blockIdx.x} * kThreads, mine = first + threadIdx.x;
  if (!__syncthreads_or(mine < gemm.x.rows && gemm.x.exponents[mine] == kNotFinite)) return;
  const int64_t end = min(first + kThreads, static_cast<int64_t>(gemm.x.rows));
  for (int64_t row = first; row < end; ++row) {
    if (gemm.x.exponents[row] != kNotFinite) continue;
    for (int column = threadIdx.x; column < gemm.weight.rows; column += kThreads)
      gemm.out[row * gemm.weight.rows + column] = dot(x, gemm.weight, row, column) + gemm.bias[column];
  }
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
  constexpr int kOfWarp = 32 * 4 * kUnits;  // columns
  if (to.columns > kMostSplitColumns) return cudaErrorInvalidValue;
  if (to.columns <= kOfWarp) {
    launch_split_rows<1>(x, to, stream);
  } else {
    launch_split_rows<kMostSplitColumns / kOfWarp>(x, to, stream);
  }
  return cudaGetLastError();
}

cudaError_t split_map(const FloatMap& x, const SplitMatrix& to, cudaStream_t stream) {
  if (to.columns % kSplitColumns != 0) return cudaErrorInvalidValue;  // or columns would stay unwritten
  const int64_t count = int64_t{to.rows} * (to.columns / 4), blocks = (count + kThreads - 1) / kThreads;
  split_map_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(x, to, count);
  return cudaGetLastError();
}

cudaError_t repair_rows(const FloatRows& x, const SplitGemm& gemm, cudaStream_t stream) {
  const unsigned blocks = (static_cast<unsigned>(gemm.x.rows) + kThreads - 1) / kThreads;
  repair_rows_kernel<<<blocks, kThreads, 0, stream>>>(x, gemm);
  return cudaGetLastError();
}

}  // namespace vggt
