#pragma once
// The strict kernel's layout: what each lane computes and where it lies in shared memory. Pure arithmetic, on
// the host too, where a test counts elements and bank conflicts.
//
// Note [Strict tiles]. A block of kWarps warps takes 32 queries per warp and kKeys keys at a time. Of both
// products a lane computes 8 rows by 8 columns (for D = 64): rows lane_row() + 4·i, columns lane_column() in
// strides of 8 keys, or 4 neighbours in each 32 dims. All 16-byte loads of the inner loops then meet the same
// rule: a half-warp reads at most 128 distinct bytes, one from each bank, and lanes that differ in bit 0 (or
// bit 1) read the same address, so that it takes one pass per half-warp. Queries, keys and values are stored
// as they come, rows padded by 16 bytes.
// A softmax weight is needed by the 8 lanes that share its row: 16 keys at a time pass through shared memory,
// which only the warp itself waits for. Sums over the tile start afresh and are folded into W in shared
// memory, so that rounding errors grow with the number of tiles, not of keys (see kChunkKeys).

#include <cstdint>

#include "attention/cuda_plan.h"
#include "attention/state.h"

namespace vggt {

template <int Dim, int Warps, int Keys>
struct StrictTile {
  static constexpr int kDim = Dim, kWarps = Warps, kKeys = Keys;
  static constexpr int kThreads = 32 * kWarps, kQueries = 32 * kWarps;
  static constexpr int kRows = 8;                // of a lane
  static constexpr int kKeyColumns = kKeys / 8;  // keys of a lane
  static constexpr int kQuads = kDim / 32;       // groups of 4 dims of a lane
  static constexpr int kSliceKeys = 16;
  static constexpr int kSlices = kKeys / kSliceKeys;

  // Shared memory, in floats.
  static constexpr int kRowStep = kDim + 4;
  static constexpr int kQueryAt = 0;
  static constexpr int kKeyAt = kQueryAt + kQueries * kRowStep;
  static constexpr int kValueAt = kKeyAt + kKeys * kRowStep;
  static constexpr int kWeightAt = kValueAt + kKeys * kRowStep;
  static constexpr int kSumAt = kWeightAt + kQueries * kSliceKeys;
  static constexpr int kNumberAt = kSumAt + kQueries * kDim;
  static constexpr int kFloats = kNumberAt + 2 * kQueries;
};

/// Keys after which W and S move on to a third level of sums, in global memory: with 64 keys to a tile no
/// level has more than some 50 terms at 100K keys, and rounding errors stay where they are at 1K.
constexpr int kChunkKeys = 2048;

VGGT_HOST_DEVICE constexpr int lane_row(int lane) {
  return (lane & 1) | (lane >> 4) << 1;
}
VGGT_HOST_DEVICE constexpr int lane_column(int lane) {
  return (lane >> 1) & 7;
}

/// Row i of a lane within its warp's 32 queries.
VGGT_HOST_DEVICE constexpr int row_of(int lane, int i) {
  return lane_row(lane) + 4 * i;
}
/// Key j of a lane within the tile.
VGGT_HOST_DEVICE constexpr int key_of(int lane, int j) {
  return lane_column(lane) + 8 * j;
}
/// First of the 4 dims of group c of a lane.
VGGT_HOST_DEVICE constexpr int dim_of(int lane, int c) {
  return 4 * lane_column(lane) + 32 * c;
}

/// Where a slice's keys 2·slice and 2·slice + 1 of a lane lie in a row of weights: side by side.
VGGT_HOST_DEVICE constexpr int weight_of(int lane) {
  return 2 * lane_column(lane);
}
/// The key within the slice whose weight lies at this place.
VGGT_HOST_DEVICE constexpr int key_at(int place) {
  return place / 2 + 8 * (place % 2);
}

// Offsets in floats from the beginning of the block's shared memory. Of weights and sums each warp has its
// own.
template <class Tile>
VGGT_HOST_DEVICE constexpr int query_offset(int warp, int lane, int i, int d) {
  return Tile::kQueryAt + (32 * warp + row_of(lane, i)) * Tile::kRowStep + d;
}
template <class Tile>
VGGT_HOST_DEVICE constexpr int key_offset(int lane, int j, int d) {
  return Tile::kKeyAt + key_of(lane, j) * Tile::kRowStep + d;
}
template <class Tile>
VGGT_HOST_DEVICE constexpr int value_offset(int lane, int slice, int place, int c) {
  return Tile::kValueAt + (slice * Tile::kSliceKeys + key_at(place)) * Tile::kRowStep + dim_of(lane, c);
}
template <class Tile>
VGGT_HOST_DEVICE constexpr int weight_offset(int warp, int lane, int i, int place) {
  return Tile::kWeightAt + (32 * warp + row_of(lane, i)) * Tile::kSliceKeys + place;
}
template <class Tile>
VGGT_HOST_DEVICE constexpr int sum_offset(int thread, int i, int c) {
  return Tile::kSumAt + ((i * Tile::kQuads + c) * Tile::kThreads + thread) * 4;
}

using StrictTile64 = StrictTile<64, 4, 64>;       // two blocks in the 228 KB of sm_90
using StrictTile64Small = StrictTile<64, 2, 32>;  // fits the 64 KB of sm_75
using StrictTile128 = StrictTile<128, 2, 32>;     // its W takes half of the registers: 4 warps on sm_90
using StrictTile128Small = StrictTile<128, 1, 16>;

/// Calls f(Tile()) with the instantiation of this head dim and tile; false where there is none.
template <class F>
bool with_strict_tile(int64_t dim, const CudaTile& tile, F f) {
  auto take = [&](auto candidate) {
    using Tile = decltype(candidate);
    if (dim != Tile::kDim || tile.queries != Tile::kQueries || tile.keys != Tile::kKeys) return false;
    f(candidate);
    return true;
  };
  return take(StrictTile64()) || take(StrictTile64Small()) || take(StrictTile128()) ||
         take(StrictTile128Small());
}

}  // namespace vggt
