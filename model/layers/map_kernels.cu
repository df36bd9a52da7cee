#include "model/layers/map_kernels.h"
#include "model/layers/row_values.cuh"

namespace vggt {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // numbers of a thread

template <int kCount>
__device__ __forceinline__ void add_values(const float* from, float (&to)[kCount]) {
  float more[kCount];
  load_values(from, more);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] += more[i];
}

__global__ void __launch_bounds__(kThreads) map_sum_kernel(const MapSum p) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  if (at >= p.count) return;
  float x[kWidth];
  load_values(p.x + at, x);
  if (p.bias) add_values(p.bias + at % p.channels, x);
  if (p.first) add_values(p.first + at, x);
  if (p.second) add_values(p.second + at, x);
  if (p.relu) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = x[i] < 0 ? 0 : x[i];  // NaN stays
  }
  store_values(x, p.x + at);
}

/// Where a pixel of the output lies between two of the input.
struct Between {
  int low, high;
  float weight;  // of the high one
};
__device__ __forceinline__ Between between(int at, int size, int to_size) {
  const float scale = to_size > 1 ? static_cast<float>(size - 1) / static_cast<float>(to_size - 1) : 0.f;
  const float place = scale * static_cast<float>(at);
  const int low = min(static_cast<int>(place), size - 1);
  return {low, min(low + 1, size - 1), place - static_cast<float>(low)};
}

/// A block takes a part of one row of the output.
__global__ void __launch_bounds__(kThreads) map_resize_kernel(const MapResize p) {
  const int of_pixel = p.channels / kWidth;
  const int unit = blockIdx.x * kThreads + threadIdx.x, column = unit / of_pixel;
  if (column >= p.to_columns) return;
  const int channel = unit % of_pixel * kWidth, row = blockIdx.y;
  const Between v = between(row, p.rows, p.to_rows), h = between(column, p.columns, p.to_columns);
  const float* frame = p.x + int64_t{blockIdx.z} * p.rows * p.columns * p.channels + channel;
  const auto load = [&](int r, int c, float(&to)[kWidth]) {
    load_values(frame + (int64_t{r} * p.columns + c) * p.channels, to);
  };
  float corner[2][2][kWidth], y[kWidth];
  load(v.low, h.low, corner[0][0]);
  load(v.low, h.high, corner[0][1]);
  load(v.high, h.low, corner[1][0]);
  load(v.high, h.high, corner[1][1]);
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    y[i] = (1 - v.weight) * ((1 - h.weight) * corner[0][0][i] + h.weight * corner[0][1][i]) +
           v.weight * ((1 - h.weight) * corner[1][0][i] + h.weight * corner[1][1][i]);
  if (p.bias) add_values(p.bias + channel, y);
  if (p.along_x) {
    const int half = p.channels / 2;
    add_values(channel < half ? p.along_x + int64_t{column} * half + channel
                              : p.along_y + int64_t{row} * half + channel - half,
               y);
  }
  store_values(
      y, p.y + ((int64_t{blockIdx.z} * p.to_rows + row) * p.to_columns + column) * p.channels + channel);
}

}  // namespace

void map_sum_cuda(const MapSum& sum, void* stream) {
  constexpr int64_t kOfBlock = kThreads * kWidth;
  if (sum.count == 0) return;
  const auto blocks = static_cast<unsigned>((sum.count + kOfBlock - 1) / kOfBlock);
  map_sum_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(sum);
  check_launch("sum of maps");
}

void map_resize_cuda(const MapResize& resize, void* stream) {
  const int64_t units = int64_t{resize.to_columns} * (resize.channels / kWidth);
  if (units == 0 || resize.to_rows == 0 || resize.frames == 0) return;
  const dim3 blocks(static_cast<unsigned>((units + kThreads - 1) / kThreads),
                    static_cast<unsigned>(resize.to_rows), static_cast<unsigned>(resize.frames));
  map_resize_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(resize);
  check_launch("resize of a map");
}

}  // namespace vggt
