#pragma once
// The producer of a block: one thread, which has the copy engine fill a ring of tiles of keys and values in
// shared memory.

#include "attention/cuda/hopper/hopper_block.cuh"

namespace vggt::hopper {

struct Maps {
  CUtensorMap q, k, v;
};

/// Coordinates of a head in the tensor maps. With one part the maps are [batch,head,token,column], with more
/// [part,row,token,column], where a row is one (batch, head).
template <class S>
__device__ __forceinline__ void load_tile(const CudaProblem& p, uint32_t to, uint32_t barrier, int rows,
                                          const CUtensorMap* map, int token, const BlockWork& work) {
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
    const int outer = S::kParts == 1 ? work.batch : part;
    const int inner = S::kParts == 1 ? work.head : work.batch * p.heads + work.head;
#pragma unroll
    for (int column = 0; column < S::kDim; column += 64) {
      load_box(to + part * rows * S::kDim * 2 + column_offset(column, rows), map, barrier, column, token,
               inner, outer);
    }
  }
}

template <class S>
__device__ void load_slot(const CudaProblem& p, const Layout<S>& shared, Ring<S>& ring,
                          const CUtensorMap* map, const BlockWork& work, int tile) {
  wait(shared.slot_free(ring.slot), ring.phase ^ 1);
  const uint32_t full = shared.slot_full(ring.slot);
  arrive_expecting(full, S::kSlotBytes);
  load_tile<S>(p, shared.slot(ring.slot), full, S::kKeys, map, work.first_key + tile * S::kKeys, work);
  ring.advance();
}

template <class S>
__device__ void load_queries(const CudaProblem& p, const Layout<S>& shared, uint32_t phase,
                             const CUtensorMap* map, const BlockWork& work) {
  for (int group = 0; group < S::kGroups; ++group) {
    wait(shared.queries_free(group), phase ^ 1);
    const uint32_t full = shared.queries_full(group);
    arrive_expecting(full, S::kQueryBytes);
    load_tile<S>(p, shared.queries(group), full, kGroupQueries, map, work.first_query + group * kGroupQueries,
                 work);
  }
}

/// Loads tiles in the order of use: from the last tile to the first, so that the only tile that may need a
/// mask comes first, and keys one tile ahead of values.
template <class S>
__device__ void produce(const CudaProblem& p, const Maps& maps, const Layout<S>& shared, int items) {
  Ring<S> ring;
  uint32_t q_phase = 0;
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const BlockWork work = work_of_item<S>(p, item);
    int tile = key_tiles<S>(work) - 1;
    if (work.queries == 0 || tile < 0) continue;
    load_slot<S>(p, shared, ring, &maps.k, work, tile);
    load_queries<S>(p, shared, q_phase, &maps.q, work);
    q_phase ^= 1;
#pragma unroll 1
    for (; tile > 0; --tile) {
      load_slot<S>(p, shared, ring, &maps.k, work, tile - 1);
      load_slot<S>(p, shared, ring, &maps.v, work, tile);
    }
    load_slot<S>(p, shared, ring, &maps.v, work, tile);
  }
}

}  // namespace vggt::hopper
