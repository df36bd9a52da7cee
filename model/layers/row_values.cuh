#pragma once
// Numbers as kernels of fp32 state load and store them: 4 at a time, or as many as 16 bytes hold.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

namespace vggt {

inline constexpr unsigned kAllLanes = 0xffffffffu;

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Values {
  T at[kCount];
};

/// State is fp32, or fp64 for fp64 values.
template <int kCount, typename State, typename T>
__device__ __forceinline__ void load_values(const T* from, State (&to)[kCount]) {
  const auto values = *reinterpret_cast<const Values<T, kCount>*>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = static_cast<State>(values.at[i]);
}

template <int kCount, typename State, typename T>
__device__ __forceinline__ void store_values(const State (&from)[kCount], T* to) {
  Values<T, kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.at[i] = static_cast<T>(from[i]);
  *reinterpret_cast<Values<T, kCount>*>(to) = values;
}

/// Over kLanes neighbouring lanes.
template <int kLanes, typename State>
__device__ __forceinline__ State sum_of_lanes(State x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

/// The largest number over kLanes neighbouring lanes.
template <int kLanes, typename T>
__device__ __forceinline__ T largest_of_lanes(T x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x = max(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}

inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace vggt
