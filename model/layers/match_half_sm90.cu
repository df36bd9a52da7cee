// The best matches of rows of bf16 and fp16 on Hopper, and the keys that they are merged by.
#include <algorithm>

#include "model/layers/gemm_launch.h"
#include "model/layers/half_gemm_block.cuh"
#include "model/layers/match_best.cuh"
#include "model/layers/match_kernels.h"

namespace vggt {
namespace half_gemm {

/// Keeps the best scores of a block's rows.
struct MatchRows {
  uint64_t* keys;
  int rows, candidates;
  BestOfRows best = {};

  __device__ __forceinline__ void operator()(float (&sums)[kSums], const Walk<kBlocks>& walk, int group) {
    const int thread = threadIdx.x % kGroupThreads, first = walk.column_tile * kColumns;
    best.take(sums, first + fragment_column(thread, 0), first + kColumns, candidates);
    if (!walk.item_ends()) return;
    best.merge_into(keys, walk.row_tile * kTileRows + group * kGroupRows + fragment_row(thread, 0), rows, 0);
  }
};

}  // namespace half_gemm

namespace {

using namespace half_gemm;

constexpr int kKeyThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    match_half_kernel(const __grid_constant__ GemmMaps maps, const GemmWork work, int chains, int rows,
                      int candidates, uint64_t* keys) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const HalfRing ring(memory);
  run_block<kBlocks>(
      ring, [&] { produce(maps, Walk<kBlocks>(work), chains, ring); },
      [&] {
        MatchRows output{keys, rows, candidates};
        consume<T>(Walk<kBlocks>(work), chains, ring, output);
      });
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

template <class T>
cudaError_t launch(const HalfMatch& match, uint64_t* keys, cudaStream_t stream) {
  GemmMaps maps;
  cudaError_t error = map_rows<T>(maps.x, {match.x, match.rows, match.columns});
  if (error == cudaSuccess) error = map_rows<T>(maps.weight, {match.y, match.candidates, match.columns});
  if (error != cudaSuccess) return error;
  const auto kernel = match_half_kernel<T>;
  ClusterGrid<kBlocks, decltype(kernel)> grid(kernel, HalfRing::kSharedBytes, stream);
  int clusters = 0;
  error = grid.count(clusters);
  if (error != cudaSuccess) return error;
  const GemmWork work =
      long_items(divide_up(match.rows, kBlocks * kTileRows), divide_up(match.candidates, kColumns), clusters);
  return grid.launch(std::min(work.items(), clusters), maps, work, chains_of(match.columns), match.rows,
                     match.candidates, keys);
}

__global__ void __launch_bounds__(kKeyThreads) start_kernel(uint64_t* keys, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kKeyThreads + threadIdx.x;
  if (row < rows) keys[row] = match_key(-INFINITY, 0);
}

__global__ void __launch_bounds__(kKeyThreads) finish_kernel(uint64_t* keys, float* scores, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kKeyThreads + threadIdx.x;
  if (row >= rows) return;
  const uint64_t key = keys[row];
  scores[row] = from_ordered_bits(static_cast<uint32_t>(key >> 32));
  keys[row] = ~static_cast<uint32_t>(key);
}

unsigned key_blocks(int64_t rows) {
  return static_cast<unsigned>((rows + kKeyThreads - 1) / kKeyThreads);
}

}  // namespace

cudaError_t start_matches(uint64_t* keys, int64_t rows, cudaStream_t stream) {
  start_kernel<<<key_blocks(rows), kKeyThreads, 0, stream>>>(keys, rows);
  return cudaGetLastError();
}

cudaError_t match_half_sm90(const HalfMatch& match, uint64_t* keys, cudaStream_t stream) {
  return match.bf16 ? launch<__nv_bfloat16>(match, keys, stream) : launch<__half>(match, keys, stream);
}

cudaError_t finish_matches(uint64_t* keys, float* scores, int64_t rows, cudaStream_t stream) {
  finish_kernel<<<key_blocks(rows), kKeyThreads, 0, stream>>>(keys, scores, rows);
  return cudaGetLastError();
}

}  // namespace vggt
