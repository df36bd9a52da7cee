// Quorums: whatever the division, its depth and the length, each (query, key) pair is owned exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "attention/stream/quorum.h"

namespace {

using vggt::Quorum;
using vggt::QuorumPart;
using vggt::QuorumTile;
using vggt::RowRange;

constexpr int64_t kMostParts = 20'000;  // of a division that a test goes through

std::vector<int64_t> token_ids(const QuorumPart& part) {
  std::vector<int64_t> ids;
  for (const vggt::QuorumRun& run : part.runs) {
    for (int64_t i = 0; i < run.count; ++i) ids.push_back(run.first + i);
  }
  return ids;
}

/// How often each pair is owned, [N,N].
std::vector<int> counted(int64_t tokens, const std::vector<QuorumPart>& parts) {
  std::vector<int> counts(static_cast<std::size_t>(tokens * tokens));
  for (const QuorumPart& part : parts) {
    const std::vector<int64_t> ids = token_ids(part);
    for (const QuorumTile& tile : owned_tiles(part)) {
      for (int64_t q = tile.queries.first; q < tile.queries.first + tile.queries.count; ++q) {
        for (const RowRange& keys : tile.keys) {
          for (int64_t k = keys.first; k < keys.first + keys.count; ++k)
            ++counts[static_cast<std::size_t>(ids.at(q) * tokens + ids.at(k))];
        }
      }
    }
  }
  return counts;
}

void expect_once(int64_t tokens, const std::vector<QuorumPart>& parts, const std::string& what) {
  const std::vector<int> counts = counted(tokens, parts);
  EXPECT_EQ(std::ranges::count(counts, 1), std::ssize(counts)) << what;
}

auto to_depth(std::size_t depth) {
  return [depth](const QuorumPart& part) { return part.path.size() < depth; };
}

class QuorumTable : public ::testing::TestWithParam<Quorum> {};

TEST_P(QuorumTable, EveryDifferenceOccursOnce) {
  const Quorum& quorum = GetParam();
  const auto size = static_cast<int>(quorum.interest.size());
  EXPECT_EQ(quorum.chunks, size * (size - 1) + 1);
  EXPECT_EQ(quorum.interest.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(quorum.interest));
  std::set<int> differences;
  for (int a : quorum.interest) {
    for (int b : quorum.interest) {
      if (a != b) differences.insert((a - b + quorum.chunks) % quorum.chunks);
    }
  }
  EXPECT_EQ(static_cast<int>(differences.size()), quorum.chunks - 1);
}

TEST_P(QuorumTable, TheOwnerHasBothChunks) {
  const Quorum& quorum = GetParam();
  const auto parts = quorum_parts(quorum.chunks, quorum, to_depth(1));  // a token a chunk
  ASSERT_EQ(static_cast<int>(parts.size()), quorum.chunks);
  for (int q = 0; q < quorum.chunks; ++q) {
    for (int k = 0; k < quorum.chunks; ++k) {
      const std::vector<int64_t> ids = token_ids(parts.at(owner_of(quorum, q, k)));
      EXPECT_EQ(std::ranges::count(ids, q), 1) << q << " " << k;
      EXPECT_EQ(std::ranges::count(ids, k), 1) << q << " " << k;
    }
    EXPECT_EQ(owner_of(quorum, q, q), q);
  }
}

TEST_P(QuorumTable, EachPairIsOwnedOnceAtEveryDepth) {
  const Quorum& quorum = GetParam();
  int64_t parts = quorum.chunks;
  for (std::size_t depth = 1; parts <= kMostParts && depth <= 4; ++depth, parts *= quorum.chunks) {
    for (int64_t tokens :
         {1, 2, quorum.chunks - 1, quorum.chunks, quorum.chunks + 1, 2 * quorum.chunks + 5, 301}) {
      const auto leaves = quorum_parts(tokens, quorum, to_depth(depth));
      expect_once(tokens, leaves, std::to_string(tokens) + " tokens, depth " + std::to_string(depth));
      const int64_t most = most_part_tokens(tokens, quorum, static_cast<int>(depth));
      for (const QuorumPart& leaf : leaves) {
        EXPECT_EQ(leaf.path.size(), depth);
        EXPECT_LE(tokens_of(leaf), most);
      }
    }
  }
}

TEST_P(QuorumTable, EachPairIsOwnedOnceAtHybridDepths) {
  const Quorum& quorum = GetParam();
  // Some parts are divided again and others not, down to depth 3.
  const auto uneven = [](const QuorumPart& part) {
    if (part.path.empty()) return true;
    const int sum = std::accumulate(part.path.begin(), part.path.end(), 0);
    return part.path.size() < 3 && sum % (part.path.size() == 1 ? 3 : 11) == 0;
  };
  const auto small = [](const QuorumPart& part) { return tokens_of(part) > 40; };
  for (int64_t tokens : {5, quorum.chunks + 2, 203}) {
    expect_once(tokens, quorum_parts(tokens, quorum, uneven), "uneven, " + std::to_string(tokens));
    expect_once(tokens, quorum_parts(tokens, quorum, small), "small, " + std::to_string(tokens));
  }
}

INSTANTIATE_TEST_SUITE_P(Table3, QuorumTable,
                         ::testing::ValuesIn(vggt::quorum_table().begin(), vggt::quorum_table().end()),
                         [](const auto& info) { return "c" + std::to_string(info.param.chunks); });

TEST(Quorum, DivisionsMayDifferFromLevelToLevel) {
  std::vector<QuorumPart> parts;
  for (const QuorumPart& part : divided(vggt::whole_sequence(150), vggt::quorum_table()[1])) {
    for (QuorumPart& leaf : divided(part, vggt::quorum_table()[0])) parts.push_back(std::move(leaf));
  }
  expect_once(150, parts, "13, then 7");
}

TEST(Quorum, TheFirstPartOfSevenIsThePapers) {
  // Seq_0 = C0, C1, C3; of the pairs of a chunk with itself it owns those of C0 alone.
  const auto parts = quorum_parts(14, vggt::quorum_table()[0], to_depth(1));
  const std::vector<QuorumTile> tiles = owned_tiles(parts[0]);
  ASSERT_EQ(tiles.size(), 3u);
  EXPECT_EQ(token_ids(parts[0]), (std::vector<int64_t>{0, 1, 2, 3, 6, 7}));
  EXPECT_EQ(tiles[0].keys, (std::vector<RowRange>{{0, 6}}));
  EXPECT_EQ(tiles[1].keys, (std::vector<RowRange>{{0, 2}, {4, 2}}));
  EXPECT_EQ(tiles[2].keys, (std::vector<RowRange>{{0, 4}}));
}

TEST(Quorum, TheWholeSequenceOwnsEverything) {
  const std::vector<QuorumTile> tiles = owned_tiles(vggt::whole_sequence(9));
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].queries, (RowRange{0, 9}));
  EXPECT_EQ(tiles[0].keys, (std::vector<RowRange>{{0, 9}}));
  EXPECT_TRUE(owned_tiles(vggt::whole_sequence(0)).empty());
}

}  // namespace
