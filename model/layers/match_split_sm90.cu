// The best matches of rows of fp32, in parts, on Hopper.
#include <algorithm>

#include "model/layers/gemm_launch.h"
#include "model/layers/match_best.cuh"
#include "model/layers/match_kernels.h"
#include "model/layers/split_gemm_block.cuh"

namespace vggt {
namespace split {

constexpr int kBlocks = 2;

/// Scales a tile's sums and keeps the best of them.
struct MatchRows {
  const SplitMatrix &x, &y;
  uint64_t* keys;
  int first_place;
  BestOfRows best = {};

  __device__ __forceinline__ void operator()(float (&sums)[64], const Walk<kBlocks>& walk, int group) {
    const int thread = threadIdx.x % kGroupThreads, lane = threadIdx.x % 32, inner = lane % 4;
    const int row = walk.row_tile * kTile + group * kGroupRows + fragment_row(thread, 0),
              first = walk.column_tile * kTile;
    const ColumnExponents exponents(y, first, lane);
    const RowScales scales(x, row);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int2 e = exponents.of(4 * i, inner);
      const Scale left = scale_of(e.x), right = scale_of(e.y);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float* const of = sums + 4 * i + 2 * j;
        of[0] = scaled(of[0], scales.of[j], left);
        of[1] = scaled(of[1], scales.of[j], right);
      }
    }
    best.take(sums, first + fragment_column(thread, 0), first + kTile, y.rows);
    if (walk.item_ends()) best.merge_into(keys, row, x.rows, first_place);
  }
};

}  // namespace split

namespace {

using namespace split;

__global__ void __launch_bounds__(kThreads, 1)
    match_split_kernel(const __grid_constant__ GemmMaps maps, const GemmWork work, int chains,
                       const __grid_constant__ SplitMatrix x, const __grid_constant__ SplitMatrix y,
                       int first_place, uint64_t* keys) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const SplitRing ring(memory);
  run_block<kBlocks>(
      ring, [&] { produce<kBlocks>(maps, Walk<kBlocks>(work), chains, {chains, 1, 0}, ring); },
      [&] {
        MatchRows output{x, y, keys, first_place};
        consume<kBlocks>(Walk<kBlocks>(work), chains, ring, output);
      });
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

}  // namespace

cudaError_t match_split_sm90(const SplitMatrix& x, const SplitMatrix& y, int first, uint64_t* keys,
                             cudaStream_t stream) {
  GemmMaps maps;
  cudaError_t error = map_operands<kBlocks>(maps, x, y);
  if (error != cudaSuccess) return error;
  const auto kernel = match_split_kernel;
  ClusterGrid<kBlocks, decltype(kernel)> grid(kernel, SplitRing::kSharedBytes, stream);
  int clusters = 0;
  error = grid.count(clusters);
  if (error != cudaSuccess) return error;
  const GemmWork work = long_items(divide_up(x.rows, kBlocks * kTile), divide_up(y.rows, kTile), clusters);
  return grid.launch(std::min(work.items(), clusters), maps, work, chains_of(x.columns), x, y, first, keys);
}

}  // namespace vggt
