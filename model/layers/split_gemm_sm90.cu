// The split GEMM on Hopper.
#include <algorithm>
#include <climits>

#include "attention/cuda/hopper/tensor_map.h"
#include "model/layers/split_gemm_block.cuh"

namespace vggt {
namespace {

using namespace split;

template <int kBlocks>
__device__ __forceinline__ void init_barriers(const Ring& ring) {
  for (int i = 0; i < kSlots; ++i) {
    init_barrier(ring.full(i), 1);
    init_barrier(ring.free(i), kBlocks * kGroups * kGroupThreads / 32);
  }
  fence_barrier_init();
}

template <int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    split_gemm_kernel(const __grid_constant__ SplitGemm gemm, const __grid_constant__ GemmMaps maps,
                      const Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const Ring ring{(shared_address(memory) + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes};
  if (threadIdx.x == 0) init_barriers<kBlocks>(ring);
  __syncthreads();
  if constexpr (kBlocks > 1) sync_cluster();  // no block may signal a barrier before its block has made it
  if (__shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) == 0) {
    shrink_registers<24>();
    if (threadIdx.x == 0) produce<kBlocks>(maps, work, ring);
  } else {
    grow_registers<240>();
    consume<kBlocks>(gemm, work, ring);
  }
  if constexpr (kBlocks > 1) sync_cluster();  // nor write to the shared memory of a block that has ended
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

cudaError_t map_rows(CUtensorMap& map, const SplitMatrix& m, int rows_of_box) {
  const int width = static_cast<int>(split_width(m.columns));
  const int64_t all = int64_t{m.rows} * width;
  return make_tensor_map(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, m.parts, {all, all, width},
                         {1, 1, m.rows, width, rows_of_box});
}

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

/// A persistent grid: as many clusters as run at one time, each of which takes item after item.
template <int kBlocks>
cudaError_t launch(const SplitGemm& gemm, cudaStream_t stream) {
  GemmMaps maps;
  cudaError_t error = map_rows(maps.x, gemm.x, kTile);
  if (error == cudaSuccess) error = map_rows(maps.weight, gemm.weight, kTile / kBlocks);
  const auto kernel = split_gemm_kernel<kBlocks>;
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute in_clusters;
  in_clusters.id = cudaLaunchAttributeClusterDimension;
  in_clusters.val.clusterDim = {kBlocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = kBlocks;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &in_clusters;
  config.numAttrs = 1;
  int clusters = 0;
  error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  if (error != cudaSuccess) return error;
  Work work;
  work.row_groups = divide_up(gemm.x.rows, kBlocks * kTile);
  work.column_groups = divide_up(gemm.weight.rows, kTile);
  const int64_t items = int64_t{work.row_groups} * work.column_groups;
  if (items > INT_MAX / 2) return cudaErrorInvalidValue;
  work.items = static_cast<int>(items);
  work.chains = 2 * divide_up(gemm.x.columns, 2 * kChain);
  config.gridDim = kBlocks * static_cast<unsigned>(std::min(work.items, std::max(clusters, 1)));
  return cudaLaunchKernelEx(&config, kernel, gemm, maps, work);
}

}  // namespace

cudaError_t launch_split_gemm_sm90(const SplitGemm& gemm, int blocks, cudaStream_t stream) {
  return blocks == 1 ? launch<1>(gemm, stream) : launch<2>(gemm, stream);
}

}  // namespace vggt
