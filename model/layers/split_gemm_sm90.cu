// The split GEMM on Hopper.
#include <algorithm>

#include "model/layers/gemm_launch.h"
#include "model/layers/split_gemm_block.cuh"

namespace vggt {
namespace {

using namespace split;

/// Scales a tile's sums, adds the bias and writes them.
struct WriteRows {
  const SplitGemm& gemm;

  /// Where a row's output lies; null for none. (A template, as code for other GPUs has no call of it.)
  template <class Gemm>
  __device__ __forceinline__ static float* out_of_row(const Gemm& gemm, int row) {
    const int64_t columns = gemm.weight.rows;
    if (row >= gemm.x.rows) return nullptr;
    if (gemm.taps == 1) return gemm.out + row * columns;
    const int pixels = gemm.tap_rows * gemm.tap_row, frame = row / pixels, place = row % pixels;
    const int y = place / gemm.tap_row, x = place % gemm.tap_row;
    if (y > gemm.tap_rows - gemm.taps || x > gemm.tap_row - gemm.taps) return nullptr;
    return gemm.out + (frame * gemm.out_frame + int64_t{y} * (gemm.tap_row - gemm.taps + 1) + x) * columns;
  }

  template <class Walk>
  __device__ __forceinline__ void operator()(const float (&sums)[64], const Walk& walk, int group) const {
    const int columns = gemm.weight.rows;
    const int thread = threadIdx.x % kGroupThreads, lane = threadIdx.x % 32, inner = lane % 4;
    const int row = walk.row_tile * kTile + group * kGroupRows + fragment_row(thread, 0),
              first = walk.column_tile * kTile, column = first + fragment_column(thread, 0);
    const ColumnExponents exponents(gemm.weight, first, lane);
    float2 biases[2];  // of the same columns
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = first + 64 * i + 2 * lane;
      biases[i] = at < columns ? __ldg(reinterpret_cast<const float2*>(gemm.bias + at)) : float2{};
    }
    const RowScales scales(gemm.x, row);
    float* const out[2] = {out_of_row(gemm, row), out_of_row(gemm, row + 8)};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int2 e = exponents.of(4 * i, inner);
      const float2 pair = biases[4 * i / 32];
      const float2 bias = {__shfl_sync(~0u, pair.x, 4 * i % 32 + inner),
                           __shfl_sync(~0u, pair.y, 4 * i % 32 + inner)};
      const Scale left = scale_of(e.x), right = scale_of(e.y);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* of = sums + 4 * i + 2 * j;
        const float2 y = {scaled(of[0], scales.of[j], left) + bias.x,
                          scaled(of[1], scales.of[j], right) + bias.y};
        if (out[j] != nullptr && column + 8 * i < columns)
          *reinterpret_cast<float2*>(out[j] + column + 8 * i) = y;
      }
    }
  }
};

template <int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    split_gemm_kernel(const __grid_constant__ SplitGemm gemm, const __grid_constant__ GemmMaps maps,
                      const GemmWork work, int chains, const Taps taps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const SplitRing ring(memory);
  run_block<kBlocks>(
      ring, [&] { produce<kBlocks>(maps, Walk<kBlocks>(work), chains, taps, ring); },
      [&] {
        WriteRows output{gemm};
        consume<kBlocks>(Walk<kBlocks>(work), chains, ring, output);
      });
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

template <int kBlocks>
cudaError_t launch(const SplitGemm& gemm, cudaStream_t stream) {
  GemmMaps maps;
  cudaError_t error = map_operands<kBlocks>(maps, gemm.x, gemm.weight);
  if (error != cudaSuccess) return error;
  const GemmWork work =
      tile_by_tile(divide_up(gemm.x.rows, kBlocks * kTile), divide_up(gemm.weight.rows, kTile));
  if (work.items() == 0) return cudaErrorInvalidValue;
  const auto kernel = split_gemm_kernel<kBlocks>;
  ClusterGrid<kBlocks, decltype(kernel)> grid(kernel, SplitRing::kSharedBytes, stream);
  int clusters = 0;
  error = grid.count(clusters);
  if (error != cudaSuccess) return error;
  const Taps taps{chains_of(gemm.x.columns), gemm.taps, gemm.tap_row - gemm.taps + 1};
  return grid.launch(std::min(work.items(), clusters), gemm, maps, work, gemm.taps * gemm.taps * taps.chains,
                     taps);
}

}  // namespace

cudaError_t launch_split_gemm_sm90(const SplitGemm& gemm, int blocks, cudaStream_t stream) {
  return blocks == 1 ? launch<1>(gemm, stream) : launch<2>(gemm, stream);
}

}  // namespace vggt
