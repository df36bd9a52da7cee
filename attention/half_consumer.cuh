#pragma once
// The half kernel's consumers: warpgroups of 64 queries each. While the products of one tile of keys run, the
// exponentials of the tile before are taken, within a warpgroup and, in turns, across them.

#include "attention/half_rows.cuh"
#include "attention/half_shape.cuh"
#include "attention/wgmma.cuh"

namespace vggt::half_sm90 {

/// One warpgroup's registers.
template <class S>
struct Consumer {
  float scores[S::kKeys / 2];      // q·k of a tile, then exp of them
  uint32_t weights[S::kKeys / 4];  // the tile before: exp in pairs of T
  float values[S::kDim / 2];       // w
  SoftmaxRows<S::kPolynomial> rows;
  int group, thread;  // the warpgroup, the thread in it

  __device__ void start_scores(const Layout<S>& shared, int slot) {
    wgmma_fence();
    const uint64_t a = matrix_descriptor(shared.queries(group), 0, kSwizzleBytes);
    const uint64_t b = matrix_descriptor(shared.slot(slot), 0, kSwizzleBytes);
#pragma unroll
    for (int column = 0; column < S::kDim; column += 16) {
      multiply<typename S::T>(scores, a + column_offset(column, kGroupQueries) / 16,
                              b + column_offset(column, S::kKeys) / 16, column > 0);
    }
    wgmma_commit();
  }

  __device__ void start_values(const Layout<S>& shared, int slot) {
    wgmma_fence();
    const uint64_t b = matrix_descriptor(shared.slot(slot), S::kKeys * kRowBytes, kSwizzleBytes);
#pragma unroll
    for (int key = 0; key < S::kKeys; key += 16) {
      multiply_transposed<typename S::T>(values, weights + key / 4, b + key * kRowBytes / 16, 1);
    }
    wgmma_commit();
  }

  __device__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < S::kKeys / 4; ++i) {
      weights[i] = packed_pair<typename S::T>(scores[2 * i], scores[2 * i + 1]);
    }
  }

  __device__ void mask(int left) {
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      if (fragment_column(thread, i) >= left) scores[i] = -INFINITY;
    }
  }

  __device__ void rescale_values(const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < S::kDim / 2; ++i) values[i] *= factor[i / 2 % 2];
  }

  __device__ bool leads_warp() const {
    return thread % 32 == 0;
  }
};

// Warpgroups start their products in turns: while one's run, the others are at their exponentials.
template <class S>
__device__ void await_turn(int group) {
  if constexpr (S::kTurns) sync_named(1 + group, 2 * kGroupThreads);
}
template <class S>
__device__ void pass_turn(int group) {
  if constexpr (S::kTurns) arrive_named(1 + (group + 1) % S::kGroups, 2 * kGroupThreads);
}

/// Zeros in place of the values behind a packed sequence's last: they are the next sequence's, and though
/// their weights are 0, 0·NaN is not. To be called before the sequence's second tile of keys is consumed.
template <class S>
__device__ __forceinline__ void clear_foreign_values(const Layout<S>& shared, Ring<S> ring,
                                                     const BlockPlace& place, int left, int group,
                                                     int thread) {
  if (place.keys > S::kKeys) ring.advance();  // those keys come before the values
  wait(shared.slot_full(ring.slot), ring.phase);
  for (int block = 0; block < S::kDim / 64; ++block) {
    const uint32_t begin = shared.slot(ring.slot) + block * S::kKeys * kRowBytes;
    for (int byte = left * kRowBytes + thread * 16; byte < S::kKeys * kRowBytes; byte += kGroupThreads * 16)
      store_zeros(begin + byte);
  }
  fence_async_proxy();
  sync_named(1 + S::kGroups + group, kGroupThreads);
}

/// What a warpgroup without queries in this item does: as the others, without products.
template <class S>
__device__ void skip_item(const Layout<S>& shared, Ring<S>& ring, const BlockPlace& place, int group,
                          bool leads) {
  auto skip_slot = [&] {
    wait(shared.slot_full(ring.slot), ring.phase);
    if (leads) arrive(shared.slot_free(ring.slot));
    ring.advance();
  };
  skip_slot();
#pragma unroll 1
  for (int tile = key_tiles<S>(place) - 1; tile > 0; --tile) {
    await_turn<S>(group);
    pass_turn<S>(group);
    skip_slot();
    skip_slot();
  }
  skip_slot();
}

template <class S>
__device__ __forceinline__ void attend(const CudaProblem& p, const Layout<S>& shared, Ring<S>& ring,
                                       const BlockPlace& place, Consumer<S>& c) {
  const float scale2 = fabsf(p.scale) * kLog2E;
  const bool negative = p.scale < 0;
  auto release = [&](int slot) {
    if (c.leads_warp()) arrive(shared.slot_free(slot));
  };
  auto take_signs = [&] {
    if (!negative) return;
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) c.scores[i] = -c.scores[i];
  };

  int tile = key_tiles<S>(place) - 1;
  const int left = place.keys - tile * S::kKeys;
  wait(shared.slot_full(ring.slot), ring.phase);
  pin(c.scores);
  c.start_scores(shared, ring.slot);
  wgmma_wait<0>();
  pin(c.scores);
  release(ring.slot);
  ring.advance();
  take_signs();
  if (left < S::kKeys) c.mask(left);
  float factor[2];
  c.rows.raise(c.scores, scale2, factor);
  c.rows.exponentiate(c.scores, scale2);
  c.pack_weights();

  if (p.q_offsets && left < S::kKeys) clear_foreign_values<S>(shared, ring, place, left, c.group, c.thread);
#pragma unroll 1
  for (; tile > 0; --tile) {
    const int key_slot = ring.slot;
    await_turn<S>(c.group);
    wait(shared.slot_full(key_slot), ring.phase);
    ring.advance();
    pin(c.scores);
    pin(c.values);
    pin(c.weights);
    c.start_scores(shared, key_slot);
    const int value_slot = ring.slot;
    wait(shared.slot_full(value_slot), ring.phase);
    ring.advance();
    c.start_values(shared, value_slot);
    pass_turn<S>(c.group);
    wgmma_wait<1>();
    pin(c.scores);
    release(key_slot);
    take_signs();
    const bool raised = c.rows.raise(c.scores, scale2, factor);
    c.rows.exponentiate(c.scores, scale2);
    wgmma_wait<0>();
    pin(c.values);
    pin(c.weights);
    release(value_slot);
    if (raised) c.rescale_values(factor);
    c.pack_weights();
  }

  if (c.leads_warp()) arrive(shared.queries_free(c.group));
  wait(shared.slot_full(ring.slot), ring.phase);
  pin(c.values);
  pin(c.weights);
  c.start_values(shared, ring.slot);
  wgmma_wait<0>();
  pin(c.values);
  release(ring.slot);
  ring.advance();
}

template <class S>
__device__ __forceinline__ void write_rows(const CudaProblem& p, const BlockPlace& place, Consumer<S>& c) {
  c.rows.join_columns();
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int query = c.group * kGroupQueries + fragment_row(c.thread, 2 * row);
    if (query >= place.queries) continue;
    write_row<typename S::T>(p, place, query, row, fragment_column(c.thread, 0), fabsf(p.scale) * kLog2E,
                             c.rows, c.values);
  }
}

template <class S>
__device__ __forceinline__ void consume(const CudaProblem& p, const Layout<S>& shared, int items) {
  Consumer<S> c;
  c.group = __shfl_sync(~0u, threadIdx.x / kGroupThreads, 0) - 1;  // known to be uniform
  c.thread = threadIdx.x % kGroupThreads;
  Ring<S> ring;
  uint32_t q_phase = 0;
  if (c.group == S::kGroups - 1) pass_turn<S>(c.group);
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const BlockPlace place = place_at<S>(p, item);
    if (place.queries == 0) continue;
    const bool busy = place.queries > c.group * kGroupQueries;
    c.rows = {};
#pragma unroll
    for (float& x : c.values) x = 0;
    if (place.keys > 0) {
      wait(shared.queries_full(c.group), q_phase);
      q_phase ^= 1;
      if (busy) {
        attend<S>(p, shared, ring, place, c);
      } else {
        if (c.leads_warp()) arrive(shared.queries_free(c.group));
        skip_item<S>(shared, ring, place, c.group, c.leads_warp());
      }
    }
    if (busy) write_rows<S>(p, place, c);
  }
}

}  // namespace vggt::half_sm90
