#include "model/layers/map_kernels.h"
#include "model/layers/row_values.cuh"

namespace vggt {
namespace {

constexpr int kThreads = 256;

/// Numbers of a thread: 16 bytes of T.
template <typename T>
inline constexpr int kWidth = 16 / sizeof(T);

/// kCount numbers as fp32, in loads of at most 16 bytes.
template <int kCount, typename T>
__device__ __forceinline__ void add_values(const T* from, float (&to)[kCount]) {
  float more[kCount];
  load_values(from, more);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] += more[i];
}

template <int kCount>
__device__ __forceinline__ void relu(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = x[i] < 0 ? 0 : x[i];  // NaN stays
}

template <typename T>
__global__ void __launch_bounds__(kThreads) map_sum_kernel(const MapSum p) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth<T>;
  if (at >= p.count) return;
  float x[kWidth<T>];
  load_values(static_cast<const T*>(p.x) + at, x);
  if (p.bias) add_values(p.bias + at % p.channels, x);
  if (p.first) add_values(static_cast<const T*>(p.first) + at, x);
  if (p.second) add_values(static_cast<const T*>(p.second) + at, x);
  if (p.relu) relu(x);
  store_values(x, static_cast<T*>(p.x) + at);
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
template <typename T>
__global__ void __launch_bounds__(kThreads) map_resize_kernel(const MapResize p) {
  constexpr int W = kWidth<T>;
  const int of_pixel = p.channels / W;
  const int unit = blockIdx.x * kThreads + threadIdx.x, column = unit / of_pixel;
  if (column >= p.to_columns) return;
  const int channel = unit % of_pixel * W, row = blockIdx.y;
  const Between v = between(row, p.rows, p.to_rows), h = between(column, p.columns, p.to_columns);
  const T* frame =
      static_cast<const T*>(p.x) + int64_t{blockIdx.z} * p.rows * p.columns * p.channels + channel;
  const auto load = [&](int r, int c, float(&to)[W]) {
    load_values(frame + (int64_t{r} * p.columns + c) * p.channels, to);
  };
  float corner[2][2][W], y[W];
  load(v.low, h.low, corner[0][0]);
  load(v.low, h.high, corner[0][1]);
  load(v.high, h.low, corner[1][0]);
  load(v.high, h.high, corner[1][1]);
#pragma unroll
  for (int i = 0; i < W; ++i)
    y[i] = (1 - v.weight) * ((1 - h.weight) * corner[0][0][i] + h.weight * corner[0][1][i]) +
           v.weight * ((1 - h.weight) * corner[1][0][i] + h.weight * corner[1][1][i]);
  if (p.bias) add_values(p.bias + channel, y);
  if (p.along_x) {
    const int half = p.channels / 2;
    add_values(channel < half ? p.along_x + int64_t{column} * half + channel
                              : p.along_y + int64_t{row} * half + channel - half,
               y);
  }
  store_values(y, static_cast<T*>(p.y) +
                      ((int64_t{blockIdx.z} * p.to_rows + row) * p.to_columns + column) * p.channels +
                      channel);
}

/// So many lanes share a pixel, each with 16 bytes of it.
template <typename T, int kOutputs>
__global__ void __launch_bounds__(kThreads) map_finish_kernel(const MapFinish p) {
  constexpr int W = kWidth<T>, kLanes = kFinishChannels / W;
  const int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x, pixel = unit / kLanes;
  const int channel = static_cast<int>(unit % kLanes) * W;
  const bool inside = pixel < p.pixels;  // all lanes take part in the sums
  float x[W] = {}, y[kOutputs] = {};
  if (inside) {
    load_values(static_cast<const T*>(p.x) + pixel * kFinishChannels + channel, x);
    if (p.bias) add_values(p.bias + channel, x);
    relu(x);
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    float weight[W];
    load_values(p.weight + o * kFinishChannels + channel, weight);
#pragma unroll
    for (int i = 0; i < W; ++i) y[o] += weight[i] * x[i];
    y[o] = sum_of_lanes<kLanes>(y[o]);
  }
  if (!inside || channel != 0) return;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) y[o] += p.offset[o];
  store_values(y, p.y + pixel * kOutputs);
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

template <typename T>
void sum_maps(const MapSum& sum, cudaStream_t stream) {
  map_sum_kernel<T><<<blocks_for(sum.count / kWidth<T>), kThreads, 0, stream>>>(sum);
}

template <typename T>
void resize_maps(const MapResize& resize, cudaStream_t stream) {
  const dim3 blocks(blocks_for(int64_t{resize.to_columns} * (resize.channels / kWidth<T>)),
                    static_cast<unsigned>(resize.to_rows), static_cast<unsigned>(resize.frames));
  map_resize_kernel<T><<<blocks, kThreads, 0, stream>>>(resize);
}

template <typename T>
void finish_maps(const MapFinish& finish, cudaStream_t stream) {
  const unsigned blocks = blocks_for(finish.pixels * (kFinishChannels / kWidth<T>));
  if (finish.outputs == 2) map_finish_kernel<T, 2><<<blocks, kThreads, 0, stream>>>(finish);
  if (finish.outputs == 4) map_finish_kernel<T, 4><<<blocks, kThreads, 0, stream>>>(finish);
}

/// Calls launch with a number of the type.
template <class Launch>
void with_type(OperandType type, const char* what, Launch&& launch) {
  switch (type) {
    case OperandType::fp32:
      launch(float());
      break;
    case OperandType::bf16:
      launch(__nv_bfloat16());
      break;
    default:
      throw std::runtime_error(std::string(what) + ": neither fp32 nor bf16");
  }
  check_launch(what);
}

}  // namespace

void map_sum_cuda(OperandType type, const MapSum& sum, void* stream) {
  if (sum.count == 0) return;
  with_type(type, "sum of maps",
            [&](auto number) { sum_maps<decltype(number)>(sum, static_cast<cudaStream_t>(stream)); });
}

void map_resize_cuda(OperandType type, const MapResize& resize, void* stream) {
  if (resize.to_columns == 0 || resize.channels == 0 || resize.to_rows == 0 || resize.frames == 0) return;
  with_type(type, "resize of a map",
            [&](auto number) { resize_maps<decltype(number)>(resize, static_cast<cudaStream_t>(stream)); });
}

void map_finish_cuda(OperandType type, const MapFinish& finish, void* stream) {
  if (finish.pixels == 0) return;
  with_type(type, "end of a dense head",
            [&](auto number) { finish_maps<decltype(number)>(finish, static_cast<cudaStream_t>(stream)); });
}

}  // namespace vggt
