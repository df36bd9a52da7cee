#pragma once
// The consumers of a block: warpgroups of 64 queries each. While the products of one tile of keys run, the
// exponentials of the tile before are taken, within a warpgroup and, in turns, across them.
//
// The type C says what a consumer's registers hold and how products are computed from them. It has Shape,
// scores, values, rows (of type Rows), start_scores(), score_again() (unless Shape::kLooks), start_values(),
// pack_weights(), take_values() (which adds up what start_values() computed), pin_operands(), and Out and
// exponent() for write_row().

#include "attention/cuda/ampere.cuh"
#include "attention/cuda/half_rows.cuh"
#include "attention/cuda/hopper/hopper_producer.cuh"

namespace vggt::hopper {

// Warpgroups start their products in turns: while one's run, the others are at their exponentials.
template <class S>
__device__ void await_turn(int group) {
  if constexpr (S::kTurns) sync_named(1 + group, 2 * kGroupThreads);
}
template <class S>
__device__ void pass_turn(int group) {
  if constexpr (S::kTurns) arrive_named(1 + (group + 1) % S::kGroups, 2 * kGroupThreads);
}

/// Overwrites the values behind a packed sequence's last with zeros. They are the next sequence's: their
/// weights are 0, but 0·NaN is not. To be called before the sequence's second tile of keys is consumed.
template <class S>
__device__ __forceinline__ void clear_foreign_values(const Layout<S>& shared, Ring<S> ring,
                                                     const BlockWork& work, int left, int group, int thread) {
  if (work.keys > S::kKeys) ring.advance();  // those keys come before the values
  wait(shared.slot_full(ring.slot), ring.phase);
  for (int block = 0; block < S::kParts * S::kDim / 64; ++block) {
    const uint32_t begin = shared.slot(ring.slot) + block * S::kKeys * kRowBytes;
    for (int byte = left * kRowBytes + thread * 16; byte < S::kKeys * kRowBytes; byte += kGroupThreads * 16)
      store_zeros(begin + byte);
  }
  fence_async_proxy();
  sync_named(1 + S::kGroups + group, kGroupThreads);
}

/// The part of a warpgroup without queries in this item: the barriers of the others, without products.
template <class S>
__device__ void skip_item(const Layout<S>& shared, Ring<S>& ring, const BlockWork& work, int group,
                          bool leads) {
  auto skip_slot = [&] {
    wait(shared.slot_full(ring.slot), ring.phase);
    if (leads) arrive(shared.slot_free(ring.slot));
    ring.advance();
  };
  skip_slot();
#pragma unroll 1
  for (int tile = key_tiles<S>(work) - 1; tile > 0; --tile) {
    await_turn<S>(group);
    pass_turn<S>(group);
    skip_slot();
    skip_slot();
  }
  skip_slot();
}

template <int kCount>
__device__ __forceinline__ void mask(float (&scores)[kCount], int thread, int left) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (fragment_column(thread, i) >= left) scores[i] = -INFINITY;
  }
}

template <int kCount>
__device__ __forceinline__ void negate(float (&scores)[kCount]) {
#pragma unroll
  for (float& x : scores) x = -x;
}

/// Adds q·k of a tile to scores, by each warp for itself. queries, keys: addresses of the group's queries and
/// of the tile's keys, one part of each.
template <class T, class S>
__device__ __forceinline__ void multiply_by_warp(float (&scores)[S::kKeys / 2], uint32_t queries,
                                                 uint32_t keys, int thread) {
  using namespace ampere;
  asm volatile("" : "+r"(thread));  // or the loop over tiles would keep registers for the addresses
  const int lane = thread % 32, warp = thread / 32;
  queries = unit<kGroupQueries>(queries, warp * 16 + lane % 16, lane / 16 * 8);
  keys = unit<S::kKeys>(keys, lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll 1
  for (int column = 0; column < S::kDim; column += 16) {
    uint32_t a[4];
    load_fragments(a, fragment<kGroupQueries>(queries, 0, column));
#pragma unroll
    for (int key = 0; key < S::kKeys; key += 16) {
      uint32_t b[4];
      load_fragments(b, fragment<S::kKeys>(keys, key, column));
      multiply_square<T>(scores + key / 2, a, b);
    }
  }
}

/// The logits of the tile in the slot to weights. tracks: the largest ones are wanted. Returns whether w must
/// be multiplied by factor.
template <class C>
__device__ __forceinline__ bool weigh(const Layout<typename C::Shape>& shared, int slot, bool negative,
                                      bool tracks, C& c, float (&factor)[2]) {
  if (negative) negate(c.scores);
  if constexpr (!C::Shape::kLooks) {
    if (!tracks) {
      float total[2];
      c.rows.weigh_unseen(c.scores, c.scale2, total);
      if (__all_sync(~0u, c.rows.fits(total))) {
        c.rows.keep(total);
        return false;
      }
      if (__all_sync(~0u, c.rows.may_overtake(total))) {
        c.rows.overtake(c.scores, c.scale2, total, factor);
        return true;
      }
      c.score_again(shared, slot);
      if (negative) negate(c.scores);
    }
  }
  const bool lags = __any_sync(~0u, c.rows.lags(c.scores, c.scale2)), rises = lags || !tracks;
  if (rises) c.rows.rise(c.scores, c.scale2, factor);
  c.rows.weigh(c.scores, c.scale2);
  return rises;
}

template <class C>
__device__ __forceinline__ void attend(const CudaProblem& p, const Layout<typename C::Shape>& shared,
                                       Ring<typename C::Shape>& ring, const BlockWork& work, C& c) {
  using S = typename C::Shape;
  const bool leads = c.thread % 32 == 0, negative = p.scale < 0, tracks = S::kLooks || p.wants_largest;
  auto release = [&](int slot) {
    if (leads) arrive(shared.slot_free(slot));
  };

  int tile = key_tiles<S>(work) - 1;
  const int left = work.keys - tile * S::kKeys;
  wait(shared.slot_full(ring.slot), ring.phase);
  pin(c.scores);
  c.start_scores(shared, ring.slot);
  wgmma_wait<0>();
  pin(c.scores);
  release(ring.slot);
  ring.advance();
  if (negative) negate(c.scores);
  if (left < S::kKeys) mask(c.scores, c.thread, left);
  float factor[2];
  c.rows.lags(c.scores, c.scale2);
  c.rows.rise(c.scores, c.scale2, factor);
  c.rows.weigh(c.scores, c.scale2);
  c.pack_weights();

  if (p.q_offsets && left < S::kKeys) clear_foreign_values<S>(shared, ring, work, left, c.group, c.thread);
#pragma unroll 1
  for (; tile > 0; --tile) {
    const int key_slot = ring.slot;
    await_turn<S>(c.group);
    wait(shared.slot_full(key_slot), ring.phase);
    ring.advance();
    pin(c.scores);
    c.pin_operands();
    c.start_scores(shared, key_slot);
    const int value_slot = ring.slot;
    wait(shared.slot_full(value_slot), ring.phase);
    ring.advance();
    c.start_values(shared, value_slot);
    pass_turn<S>(c.group);
    wgmma_wait<1>();
    pin(c.scores);
    if constexpr (S::kLooks) release(key_slot);
    const bool raised = weigh(shared, key_slot, negative, tracks, c, factor);
    if constexpr (!S::kLooks) release(key_slot);
    wgmma_wait<0>();
    c.pin_operands();
    release(value_slot);
    c.take_values();
    if (raised) {
#pragma unroll
      for (int i = 0; i < S::kDim / 2; ++i) c.values[i] *= factor[i / 2 % 2];
    }
    c.pack_weights();
  }

  if (leads) arrive(shared.queries_free(c.group));
  wait(shared.slot_full(ring.slot), ring.phase);
  c.pin_operands();
  c.start_values(shared, ring.slot);
  wgmma_wait<0>();
  c.pin_operands();
  release(ring.slot);
  ring.advance();
  c.take_values();
}

template <class C>
__device__ __forceinline__ void write_rows(const CudaProblem& p, const BlockWork& work, C& c) {
  if (!p.wants_largest) c.rows.forget_largest();
  c.rows.join_columns();
  const int exponent = C::exponent(p, work);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int query = c.group * kGroupQueries + fragment_row(c.thread, 2 * row);
    if (query < work.queries)
      write_row<typename C::Out>(p, work, query, row, fragment_column(c.thread, 0), c.scale2, c.rows,
                                 c.values, exponent);
  }
}

template <class C>
__device__ __forceinline__ void consume(const CudaProblem& p, const Layout<typename C::Shape>& shared,
                                        int items, C& c) {
  using S = typename C::Shape;
  c.group = __shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) - 1;  // known to be uniform
  c.thread = threadIdx.x % kGroupThreads;
  Ring<S> ring;
  uint32_t q_phase = 0;
  if (c.group == S::kGroups - 1) pass_turn<S>(c.group);
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const BlockWork work = work_of_item<S>(p, item);
    if (work.queries == 0) continue;
    const bool busy = work.queries > c.group * kGroupQueries, leads = c.thread % 32 == 0;
    c.scale2 = logit_scale(p, work);
    c.rows = {};
#pragma unroll
    for (float& x : c.values) x = 0;
    if (work.keys > 0) {
      wait(shared.queries_full(c.group), q_phase);
      q_phase ^= 1;
      if (busy) {
        attend(p, shared, ring, work, c);
      } else {
        if (leads) arrive(shared.queries_free(c.group));
        skip_item<S>(shared, ring, work, c.group, leads);
      }
    }
    if (busy) write_rows(p, work, c);
  }
}

/// A whole block; shared memory of Shape::kSharedBytes.
template <class C>
__device__ __forceinline__ void run_block(const CudaProblem& p, const Maps& maps, int items, char* memory,
                                          C& c) {
  using S = typename C::Shape;
  const Layout<S> shared{(shared_address(memory) + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes};
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
    consume(p, shared, items, c);
  }
}

}  // namespace vggt::hopper
