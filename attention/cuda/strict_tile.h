#pragma once
// The strict kernel's layout: what each lane computes, and where its operands lie in shared memory. Pure
// arithmetic for device and host, where a test counts elements and bank conflicts.
//
// Note [Strict tiles]. A block of kWarps warps takes 32 queries per warp and kKeys keys at a time. Of both
// products a lane computes 8 rows by 8 columns (for D = 64). Its rows are two groups of 4 neighbours. Its
// columns are keys, lane_column() in strides of 8, or dims, 4 neighbours in each 32. Queries and keys lie dim
// by dim, with keys that are 8 apart side by side; values and weights lie key by key. A lane therefore loads
// 16-byte units. A half-warp reads at most 128 distinct bytes of them, one from each bank, and lanes that
// differ in bit 0 (or bit 1) read the same address, so that a load takes one pass per half-warp. The 8 lanes
// that share a row all need its softmax weights: the weights of 16 keys at a time pass through shared memory,
// which only the warp itself waits for. The sums over a tile start at 0 and are then added to W in shared
// memory, so that rounding errors grow with the number of tiles, not of keys (see kChunkKeys).

#include <cstdint>

#include "attention/cuda/cuda_plan.h"
#include "attention/state.h"

namespace vggt {

template <int Dim, int Warps, int Keys>
struct StrictTile {
  static constexpr int kDim = Dim, kWarps = Warps, kKeys = Keys;
  static constexpr int kThreads = 32 * kWarps, kQueries = 32 * kWarps;
  static constexpr int kRows = 8;                                      // of a lane
  static constexpr int kKeyColumns = kKeys / 8;                        // keys of a lane
  static constexpr int kKeyGroup = kKeyColumns < 4 ? kKeyColumns : 4;  // of these, side by side
  static constexpr int kQuads = kDim / 32;                             // groups of 4 dims of a lane
  static constexpr int kSliceKeys = 16;
  static constexpr int kSlices = kKeys / kSliceKeys;

  // Shared memory, in floats. Behind each operand lies one more row, which is loaded ahead and never used.
  static constexpr int kRowStep = kDim;       // of values
  static constexpr int kKeyStep = kKeys + 4;  // of keys, dim by dim
  static constexpr int kWeightStep = 40;      // of a key's weights for the 32 rows of a warp
  static constexpr int kQueryAt = 0;
  static constexpr int kKeyAt = kQueryAt + (kDim + 1) * kQueries;
  static constexpr int kValueAt = kKeyAt + (kDim + 1) * kKeyStep;
  static constexpr int kWeightAt = kValueAt + (kKeys + 1) * kRowStep;
  static constexpr int kWarpWeights = (kSliceKeys + 1) * kWeightStep;
  static constexpr int kSumAt = kWeightAt + kWarps * kWarpWeights;
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
  return 4 * lane_row(lane) + i % 4 + 16 * (i / 4);
}
/// Key j of a lane within the tile.
VGGT_HOST_DEVICE constexpr int key_of(int lane, int j) {
  return lane_column(lane) + 8 * j;
}
/// First of the 4 dims of group c of a lane.
VGGT_HOST_DEVICE constexpr int dim_of(int lane, int c) {
  return 4 * lane_column(lane) + 32 * c;
}

// Offsets in floats from the beginning of the block's shared memory. Each warp has weights and sums of its
// own.
/// Dimension d of rows 4·group to 4·group + 3 of a lane.
template <class Tile>
VGGT_HOST_DEVICE constexpr int query_offset(int warp, int lane, int group, int d) {
  return Tile::kQueryAt + d * Tile::kQueries + 32 * warp + row_of(lane, 4 * group);
}
/// Dimension d of a key: the keys of a lane lie in fours (or twos), side by side.
template <class Tile>
VGGT_HOST_DEVICE constexpr int key_offset(int key, int d) {
  constexpr int kWide = Tile::kKeyGroup;
  return Tile::kKeyAt + d * Tile::kKeyStep + key / (8 * kWide) * (8 * kWide) + key % 8 * kWide +
         key / 8 % kWide;
}
template <class Tile>
VGGT_HOST_DEVICE constexpr int value_offset(int lane, int key, int c) {
  return Tile::kValueAt + key * Tile::kRowStep + dim_of(lane, c);
}
/// The weights of a slice's key for rows 4·group to 4·group + 3 of a lane.
template <class Tile>
VGGT_HOST_DEVICE constexpr int weight_offset(int warp, int lane, int group, int key) {
  return Tile::kWeightAt + warp * Tile::kWarpWeights + key * Tile::kWeightStep + row_of(lane, 4 * group);
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
