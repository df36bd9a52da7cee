#pragma once
// How a product on Hopper's tensor cores is cut up: arithmetic for host and device.

#include <algorithm>
#include <climits>
#include <cstdint>

namespace vggt {

#if defined(__CUDACC__)
#define VGGT_GEMM __host__ __device__ constexpr
#else
#define VGGT_GEMM constexpr
#endif

/// Which group of rows of tiles, which group of columns of tiles.
struct GemmTile {
  int row, column;
};
/// Rows first within bands of kGemmBand groups, so that what runs at one time shares its operands in L2.
inline constexpr int kGemmBand = 8;
VGGT_GEMM GemmTile gemm_tile(int item, int row_groups, int column_groups) {
  const int of_band = kGemmBand * column_groups;
  const int first = item / of_band * kGemmBand, inner = item % of_band;
  const int rows = row_groups - first < kGemmBand ? row_groups - first : kGemmBand;
  return {first + inner % rows, inner / rows};
}

/// Item after item, a cluster of blocks takes one group of rows, a tile for each block, and one group of
/// columns, tile after tile.
struct GemmWork {
  int row_groups = 0, column_groups = 0;
  int column_tiles = 0;  // of all groups
  int of_group = 1;      // column tiles of a group; the last one may have fewer

  VGGT_GEMM int items() const { return row_groups * column_groups; }
};

constexpr int divide_up(int a, int b) {
  return a / b + (a % b != 0);
}

/// One column tile an item, or 0 items where there are more than an int counts.
constexpr GemmWork tile_by_tile(int row_groups, int column_tiles) {
  if (int64_t{row_groups} * column_tiles > INT_MAX / 2) return {};
  return {row_groups, column_tiles, column_tiles, 1};
}

/// Long items, for a result per row that is merged from the items of that row: as few as keep all clusters
/// busy to the end, as an item's first tiles cost more: their scores are the best so far more often.
constexpr GemmWork long_items(int row_groups, int column_tiles, int clusters) {
  constexpr int kMostGroups = 256;
  GemmWork best;
  int64_t least = INT64_MAX;
  for (int groups = 1; groups <= std::min(kMostGroups, column_tiles); ++groups) {
    const int of_group = divide_up(column_tiles, groups);
    const GemmWork work{row_groups, divide_up(column_tiles, of_group), column_tiles, of_group};
    const int64_t waves = (int64_t{row_groups} * work.column_groups + clusters - 1) / clusters;
    const int64_t cost = waves * (4 * of_group + 1);  // an item's end costs about a quarter of a tile
    if (cost < least) {
      least = cost;
      best = work;
    }
  }
  return best;
}

}  // namespace vggt
