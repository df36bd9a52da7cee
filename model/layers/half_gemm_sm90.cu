// The products of half_gemm.h.
#include <algorithm>

#include "model/layers/gemm_launch.h"
#include "model/layers/half_gemm.h"
#include "model/layers/half_gemm_block.cuh"

namespace vggt {
namespace half_gemm {

template <class T>
struct Pair;
template <>
struct Pair<__half> {
  static __device__ __forceinline__ float2 load(const void* from, int column) {
    return __half22float2(__ldg(reinterpret_cast<const __half2*>(static_cast<const __half*>(from) + column)));
  }
  static __device__ __forceinline__ uint32_t pack(float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    return reinterpret_cast<const uint32_t&>(pair);
  }
};
template <>
struct Pair<__nv_bfloat16> {
  static __device__ __forceinline__ float2 load(const void* from, int column) {
    const uint32_t pair =
        __ldg(reinterpret_cast<const uint32_t*>(static_cast<const __nv_bfloat16*>(from) + column));
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
  }
  static __device__ __forceinline__ uint32_t pack(float a, float b) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return reinterpret_cast<const uint32_t&>(pair);
  }
};

/// x·Φ(x). Φ's lower tail is ½erfc(z), z = |x|/√2, by Abramowitz & Stegun 7.1.26: off by 8e-8, without
/// a branch.
__device__ __forceinline__ float gelu(float x) {
  float t, e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(fabsf(x), 0.3275911f * 0.70710678f, 1.f)));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -0.72134752f * x));
  float tail = fmaf(t, 0.5f * 1.061405429f, 0.5f * -1.453152027f);
  tail = fmaf(t, tail, 0.5f * 1.421413741f);
  tail = fmaf(t, tail, 0.5f * -0.284496736f);
  tail = fmaf(t, tail, 0.5f * 0.254829592f) * t * e;
  return x * (x < 0 ? tail : 1 - tail);
}

/// Writes GELU of the sums and bias. Neighbouring lanes exchange halves of two blocks of columns, so that
/// each writes 8 bytes and the four lanes of a row 32.
template <class T>
struct WriteGelu {
  const HalfGemm& gemm;
  void* y;

  __device__ __forceinline__ void operator()(const float (&sums)[kSums], const Walk<kBlocks>& walk,
                                             int group) const {
    const int thread = threadIdx.x % kGroupThreads, odd = thread % 2;
    const int row = walk.row_tile * kTileRows + group * kGroupRows + fragment_row(thread, 0),
              first = walk.column_tile * kColumns;
    const int own = first + fragment_column(thread, 0), out = first + thread % 4 / 2 * 4 + 8 * odd;
#pragma unroll
    for (int i = 0; i < kSums / 4; i += 2) {
      float2 bias[2] = {};
      if (own + 8 * i < gemm.N) bias[0] = Pair<T>::load(gemm.bias, own + 8 * i);
      if (own + 8 * i + 8 < gemm.N) bias[1] = Pair<T>::load(gemm.bias, own + 8 * i + 8);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t pairs[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float* of = sums + 4 * (i + k) + 2 * j;
          pairs[k] = Pair<T>::pack(gelu(of[0] + bias[k].x), gelu(of[1] + bias[k].y));
        }
        const uint32_t got = __shfl_xor_sync(~0u, odd ? pairs[0] : pairs[1], 1);
        const uint2 four = odd ? uint2{got, pairs[1]} : uint2{pairs[0], got};
        if (row + 8 * j < gemm.M && out + 8 * i < gemm.N)
          *reinterpret_cast<uint2*>(static_cast<T*>(y) + int64_t{row + 8 * j} * gemm.N + out + 8 * i) = four;
      }
    }
  }
};

/// Adds to fp32 rows in memory: each number gets one addition, so that the order does not matter.
template <class T>
struct AddToRows {
  const HalfGemm& gemm;
  const float* gamma;
  float* rows;

  __device__ __forceinline__ void operator()(const float (&sums)[kSums], const Walk<kBlocks>& walk,
                                             int group) const {
    const int thread = threadIdx.x % kGroupThreads;
    const int row = walk.row_tile * kTileRows + group * kGroupRows + fragment_row(thread, 0),
              column = walk.column_tile * kColumns + fragment_column(thread, 0);
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      if (column + 8 * i >= gemm.N) continue;
      const float2 bias = Pair<T>::load(gemm.bias, column + 8 * i),
                   scale = __ldg(reinterpret_cast<const float2*>(gamma + column + 8 * i));
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* of = sums + 4 * i + 2 * j;
        if (row + 8 * j < gemm.M)
          asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(rows + int64_t{row + 8 * j} * gemm.N +
                                                                     column + 8 * i),
                       "f"((of[0] + bias.x) * scale.x), "f"((of[1] + bias.y) * scale.y)
                       : "memory");
      }
    }
  }
};

/// What a kernel takes for its output, in which a reference to its parameters cannot be.
template <class T>
struct ToGelu {
  void* y;
  __device__ WriteGelu<T> with(const HalfGemm& gemm) const { return {gemm, y}; }
};
template <class T>
struct ToRows {
  const float* gamma;
  float* rows;
  __device__ AddToRows<T> with(const HalfGemm& gemm) const { return {gemm, gamma, rows}; }
};

}  // namespace half_gemm

namespace {

using namespace half_gemm;

template <class T, class Output>
__global__ void __launch_bounds__(kThreads, 1)
    half_gemm_kernel(const __grid_constant__ HalfGemm gemm, const __grid_constant__ GemmMaps maps,
                     const GemmWork work, int chains, const Output to) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const HalfRing ring(memory);
  run_block<kBlocks>(
      ring, [&] { produce(maps, Walk<kBlocks>(work), chains, ring); },
      [&] {
        auto output = to.with(gemm);
        consume<T>(Walk<kBlocks>(work), chains, ring, output);
      });
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

template <class T, class Output>
cudaError_t launch(const HalfGemm& gemm, const Output& output, cudaStream_t stream) {
  GemmMaps maps;
  cudaError_t error = map_rows<T>(maps.x, {gemm.x, gemm.M, gemm.K});
  if (error == cudaSuccess) error = map_rows<T>(maps.weight, {gemm.weight, gemm.N, gemm.K});
  if (error != cudaSuccess) return error;
  const GemmWork work = tile_by_tile(divide_up(gemm.M, kBlocks * kTileRows), divide_up(gemm.N, kColumns));
  if (work.items() == 0) return cudaErrorInvalidValue;
  const auto kernel = half_gemm_kernel<T, Output>;
  ClusterGrid<kBlocks, decltype(kernel)> grid(kernel, HalfRing::kSharedBytes, stream);
  int clusters = 0;
  error = grid.count(clusters);
  if (error != cudaSuccess) return error;
  return grid.launch(std::min(work.items(), clusters), gemm, maps, work, chains_of(gemm.K), output);
}

}  // namespace

cudaError_t gelu_gemm_sm90(const HalfGemm& gemm, void* y, cudaStream_t stream) {
  return gemm.bf16 ? launch<__nv_bfloat16>(gemm, ToGelu<__nv_bfloat16>{y}, stream)
                   : launch<__half>(gemm, ToGelu<__half>{y}, stream);
}

cudaError_t residual_gemm_sm90(const HalfGemm& gemm, const float* gamma, float* rows, cudaStream_t stream) {
  return gemm.bf16 ? launch<__nv_bfloat16>(gemm, ToRows<__nv_bfloat16>{gamma, rows}, stream)
                   : launch<__half>(gemm, ToRows<__half>{gamma, rows}, stream);
}

}  // namespace vggt
