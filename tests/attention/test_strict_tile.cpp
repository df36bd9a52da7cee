// The strict kernel's layout, on the host: every element once, no two things in one place, and the passes
// that shared memory needs for each load.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "attention/cuda/strict_tile.h"

namespace {

constexpr int kLanes = 32, kBanks = 32;

template <class Tile>
class StrictTileTest : public ::testing::Test {};
using Tiles = ::testing::Types<vggt::StrictTile64, vggt::StrictTile64Small, vggt::StrictTile128,
                               vggt::StrictTile128Small>;
TYPED_TEST_SUITE(StrictTileTest, Tiles);

/// Passes of one half-warp's load of `width` floats per lane: each bank gives one word per pass.
int passes_of_half_warp(const std::vector<int>& offsets, int width) {
  std::map<int, std::set<int>> words;  // by bank
  for (int offset : offsets) {
    for (int i = 0; i < width; ++i) words[(offset + i) % kBanks].insert(offset + i);
  }
  size_t passes = 0;
  for (const auto& [bank, distinct] : words) passes = std::max(passes, distinct.size());
  return static_cast<int>(passes);
}

/// Checks a 16-byte load of a warp: one pass per half-warp. The hardware joins the quarter-warps of a half
/// only where every lane reads what its neighbour in bit 0, or every lane what its neighbour in bit 1 reads.
template <class F>
void expect_fast_load(F offset_of_lane) {
  std::vector<int> offsets;
  for (int lane = 0; lane < kLanes; ++lane) offsets.push_back(offset_of_lane(lane));
  bool pairs[2] = {true, true};
  for (int lane = 0; lane < kLanes; ++lane) {
    ASSERT_EQ(offsets[lane] % 4, 0);
    for (int bit : {0, 1}) pairs[bit] &= offsets[lane] == offsets[lane ^ (1 << bit)];
  }
  EXPECT_TRUE(pairs[0] || pairs[1]);
  for (int half : {0, 16}) EXPECT_EQ(passes_of_half_warp({&offsets[half], &offsets[half] + 16}, 4), 1);
}

TYPED_TEST(StrictTileTest, EveryScoreAndEveryOutputBelongsToOneLane) {
  using Tile = TypeParam;
  std::set<std::pair<int, int>> scores, outputs;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < Tile::kRows; ++i) {
      for (int j = 0; j < Tile::kKeyColumns; ++j) {
        EXPECT_TRUE(scores.emplace(vggt::row_of(lane, i), vggt::key_of(lane, j)).second);
      }
      for (int c = 0; c < Tile::kQuads; ++c) {
        for (int e = 0; e < 4; ++e) {
          EXPECT_TRUE(outputs.emplace(vggt::row_of(lane, i), vggt::dim_of(lane, c) + e).second);
        }
      }
    }
  }
  EXPECT_EQ(scores.size(), 32u * Tile::kKeys);
  EXPECT_EQ(outputs.size(), 32u * Tile::kDim);
  EXPECT_LT(scores.rbegin()->first, 32);
  EXPECT_LT(outputs.rbegin()->second, Tile::kDim);
}

TYPED_TEST(StrictTileTest, LanesOfARowDifferInBits1To3) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int other = 0; other < kLanes; ++other) {
      const bool same_row = vggt::lane_row(lane) == vggt::lane_row(other);
      EXPECT_EQ(same_row, ((lane ^ other) & ~0b1110) == 0);
    }
  }
}

TYPED_TEST(StrictTileTest, AWeightMeetsTheValueOfItsKey) {
  using Tile = TypeParam;
  for (int slice = 0; slice < Tile::kSlices; ++slice) {
    std::set<int> keys;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int j : {0, 1}) {
        const int key = vggt::key_of(lane, 2 * slice + j), place = vggt::key_of(lane, j);
        EXPECT_EQ(slice * Tile::kSliceKeys + place, key);
        EXPECT_EQ(vggt::weight_offset<Tile>(0, lane, 0, place) - vggt::weight_offset<Tile>(0, lane, 0, 0),
                  place * Tile::kWeightStep);
        EXPECT_EQ((vggt::value_offset<Tile>(lane, key, 0) - Tile::kValueAt) / Tile::kRowStep, key);
        keys.insert(key);
      }
    }
    EXPECT_EQ(static_cast<int>(keys.size()), Tile::kSliceKeys);
  }
}

TYPED_TEST(StrictTileTest, EverythingHasAPlaceOfItsOwn) {
  using Tile = TypeParam;
  std::set<int> places;
  auto take = [&](int at, int from, int end) {
    EXPECT_TRUE(places.insert(at).second) << at;
    EXPECT_GE(at, from);
    EXPECT_LT(at, end);
  };
  for (int d = 0; d < Tile::kDim; ++d) {
    for (int key = 0; key < Tile::kKeys; ++key) {
      // Behind the last row of an operand is another, which is loaded and never used.
      take(vggt::key_offset<Tile>(key, d), Tile::kKeyAt, Tile::kValueAt - Tile::kKeyStep);
    }
    for (int row = 0; row < Tile::kQueries; ++row)
      take(Tile::kQueryAt + d * Tile::kQueries + row, Tile::kQueryAt, Tile::kKeyAt - Tile::kQueries);
  }
  for (int thread = 0; thread < Tile::kThreads; ++thread) {
    const int warp = thread / kLanes, lane = thread % kLanes;
    for (int group : {0, 1}) {
      for (int j : {0, 1}) {
        const int at = vggt::weight_offset<Tile>(warp, lane, group, vggt::key_of(lane, j));
        const int end = Tile::kWeightAt + (warp + 1) * Tile::kWarpWeights - Tile::kWeightStep;
        for (int e = 0; e < 4; ++e) take(at + e, Tile::kWeightAt + warp * Tile::kWarpWeights, end);
      }
    }
    for (int i = 0; i < Tile::kRows * Tile::kQuads; ++i) {
      const int at = vggt::sum_offset<Tile>(thread, i / Tile::kQuads, i % Tile::kQuads);
      for (int e = 0; e < 4; ++e) take(at + e, Tile::kSumAt, Tile::kNumberAt);
    }
  }
}

TYPED_TEST(StrictTileTest, LoadsOfTheInnerLoopsTakeOnePassPerHalfWarp) {
  using Tile = TypeParam;
  for (int group : {0, 1}) {
    for (int warp = 0; warp < Tile::kWarps; ++warp) {
      for (int d = 0; d < Tile::kDim; ++d)
        expect_fast_load([&](int lane) { return vggt::query_offset<Tile>(warp, lane, group, d); });
      for (int key = 0; key < Tile::kSliceKeys; ++key)
        expect_fast_load([&](int lane) { return vggt::weight_offset<Tile>(warp, lane, group, key); });
    }
  }
  for (int d = 0; d < Tile::kDim && Tile::kKeyGroup == 4; ++d) {
    for (int j = 0; j < Tile::kKeyColumns; j += 4)
      expect_fast_load([&](int lane) { return vggt::key_offset<Tile>(vggt::key_of(lane, j), d); });
  }
  for (int key = 0; key < Tile::kKeys; ++key) {
    for (int c = 0; c < Tile::kQuads; ++c)
      expect_fast_load([&](int lane) { return vggt::value_offset<Tile>(lane, key, c); });
  }
}

TYPED_TEST(StrictTileTest, KeysOfALaneLieSideBySide) {
  using Tile = TypeParam;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int j = 0; j < Tile::kKeyColumns; ++j) {
      const int first = vggt::key_offset<Tile>(vggt::key_of(lane, j / Tile::kKeyGroup * Tile::kKeyGroup), 5);
      EXPECT_EQ(vggt::key_offset<Tile>(vggt::key_of(lane, j), 5), first + j % Tile::kKeyGroup);
    }
  }
}

TYPED_TEST(StrictTileTest, StoresOfWeightsAndSumsHaveNoConflicts) {
  using Tile = TypeParam;
  for (int quarter : {0, 8, 16, 24}) {
    std::vector<int> weights, sums;
    for (int lane = quarter; lane < quarter + 8; ++lane) {
      weights.push_back(vggt::weight_offset<Tile>(0, lane, 1, vggt::key_of(lane, 1)));
      sums.push_back(vggt::sum_offset<Tile>(lane, 3, 1));
    }
    EXPECT_EQ(passes_of_half_warp(weights, 4), 1);
    EXPECT_EQ(passes_of_half_warp(sums, 4), 1);
  }
}

}  // namespace
