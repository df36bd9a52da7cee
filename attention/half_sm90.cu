// bf16 and fp16 attention for Hopper: one producer thread has the copy engine fill a ring of tiles of keys
// and values in shared memory, which warpgroups of tensor cores consume.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <climits>

#include "attention/half_consumer.cuh"
#include "attention/half_tile.h"
#include "attention/tensor_map.h"

namespace vggt {
namespace half_sm90 {
namespace {

struct Maps {
  CUtensorMap q, k, v;
};

template <class S>
__device__ void load_tile(uint32_t to, uint32_t barrier, int rows, const CUtensorMap* map, int token,
                          int head, int batch) {
#pragma unroll
  for (int column = 0; column < S::kDim; column += 64) {
    load_box(to + column_offset(column, rows), map, barrier, column, token, head, batch);
  }
}

template <class S>
__device__ void load_slot(const Layout<S>& shared, Ring<S>& ring, const CUtensorMap* map,
                          const BlockPlace& place, int tile) {
  wait(shared.slot_free(ring.slot), ring.phase ^ 1);
  const uint32_t full = shared.slot_full(ring.slot);
  arrive_expecting(full, S::kSlotBytes);
  load_tile<S>(shared.slot(ring.slot), full, S::kKeys, map, place.first_key + tile * S::kKeys, place.head,
               place.batch);
  ring.advance();
}

template <class S>
__device__ void load_queries(const Layout<S>& shared, uint32_t phase, const CUtensorMap* map,
                             const BlockPlace& place) {
  for (int group = 0; group < S::kGroups; ++group) {
    wait(shared.queries_free(group), phase ^ 1);
    const uint32_t full = shared.queries_full(group);
    arrive_expecting(full, S::kQueryBytes);
    load_tile<S>(shared.queries(group), full, kGroupQueries, map, place.first_query + group * kGroupQueries,
                 place.head, place.batch);
  }
}

/// Loads in the order of use: keys run one tile ahead of values, from the last tile to the first, so that the
/// one that may need a mask comes first.
template <class S>
__device__ void produce(const CudaProblem& p, const Maps& maps, const Layout<S>& shared, int items) {
  Ring<S> ring;
  uint32_t q_phase = 0;
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const BlockPlace place = place_at<S>(p, item);
    int tile = key_tiles<S>(place) - 1;
    if (place.queries == 0 || tile < 0) continue;
    load_slot<S>(shared, ring, &maps.k, place, tile);
    load_queries<S>(shared, q_phase, &maps.q, place);
    q_phase ^= 1;
#pragma unroll 1
    for (; tile > 0; --tile) {
      load_slot<S>(shared, ring, &maps.k, place, tile - 1);
      load_slot<S>(shared, ring, &maps.v, place, tile);
    }
    load_slot<S>(shared, ring, &maps.v, place, tile);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    half_kernel(const __grid_constant__ CudaProblem p, const __grid_constant__ Maps maps, int items) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  const Layout<S> shared{(shared_address(raw) + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes};
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kGroups; ++i) {
      init_barrier(shared.queries_full(i), 1);
      init_barrier(shared.queries_free(i), kGroupThreads / 32);
    }
    for (int i = 0; i < S::kSlots; ++i) {
      init_barrier(shared.slot_full(i), 1);
      init_barrier(shared.slot_free(i), S::kGroups * kGroupThreads / 32);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (__shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) == 0) {
    shrink_registers<S::kProducerRegisters>();
    if (threadIdx.x == 0) produce<S>(p, maps, shared, items);
  } else {
    grow_registers<S::kConsumerRegisters>();
    consume<S>(p, shared, items);
  }
#else
  __trap();
#endif
}

template <class S>
cudaError_t make_maps(Maps& maps, const CudaProblem& p) {
  const CUtensorMapDataType type = std::is_same_v<typename S::T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const TensorBox queries{p.batch, p.heads, p.queries, p.dim, kGroupQueries};
  const TensorBox keys{p.batch, p.heads, p.keys, p.dim, S::kKeys};
  cudaError_t error = make_tensor_map(maps.q, type, p.q, p.q_strides, queries);
  if (p.keys == 0) {  // nothing to describe, nothing to load
    maps.k = maps.v = maps.q;
    return error;
  }
  if (error == cudaSuccess) error = make_tensor_map(maps.k, type, p.k, p.k_strides, keys);
  if (error == cudaSuccess) error = make_tensor_map(maps.v, type, p.v, p.v_strides, keys);
  return error;
}

template <class S>
cudaError_t launch(const CudaProblem& p, cudaStream_t stream) {
  Maps maps;
  cudaError_t error = make_maps<S>(maps, p);
  if (error != cudaSuccess) return error;
  int device = 0, multiprocessors = 0;
  error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error =
        cudaFuncSetAttribute(half_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  if (error != cudaSuccess) return error;
  const int64_t items = blocks_of(p, S::kQueries);
  if (items > INT_MAX) return cudaErrorInvalidValue;
  const int blocks = static_cast<int>(std::min<int64_t>(items, multiprocessors));
  half_kernel<S><<<blocks, S::kThreads, S::kSharedBytes, stream>>>(p, maps, static_cast<int>(items));
  return cudaGetLastError();
}

}  // namespace
}  // namespace half_sm90

bool half_sm90_built() {
#ifdef VGGT_SM90A
  return true;
#else
  return false;
#endif
}

cudaError_t launch_half_sm90(const CudaProblem& p, cudaStream_t stream) {
  using half_sm90::launch;
  using half_sm90::Shape;
  const bool bf16 = p.type == CudaElement::bf16;
  if (p.dim == 64) {
    return bf16 ? launch<Shape<__nv_bfloat16, 64, 3, 128, 12, 2>>(p, stream)
                : launch<Shape<__half, 64, 3, 128, 12, 2>>(p, stream);
  }
  return bf16 ? launch<Shape<__nv_bfloat16, 128, 2, 128, 6, 0>>(p, stream)
              : launch<Shape<__half, 128, 2, 128, 6, 0>>(p, stream);
}

}  // namespace vggt
