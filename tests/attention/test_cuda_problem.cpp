// How the kernels divide the keys, and where each part's state lies.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "attention/cuda/cuda_problem.h"

namespace {

TEST(Partitions, HoldEveryKeyOnceInWholeTiles) {
  for (int keys : {0, 1, 63, 64, 65, 1041, 104100, 2147483647}) {
    for (int tile : {16, 64, 128}) {
      for (int n : {1, 2, 3, 31, 32}) {
        int next = 0;
        for (int i = 0; i < n; ++i) {
          const vggt::KeyRange range = vggt::partition_keys(keys, tile, i, n);
          EXPECT_EQ(range.first, next);
          EXPECT_GE(range.end, range.first);
          EXPECT_TRUE(range.end == range.first || range.first % tile == 0);
          next = range.end;
        }
        EXPECT_EQ(next, keys);
      }
    }
  }
}

TEST(Partitions, StatesLieBesideOneAnother) {
  vggt::CudaProblem p;
  p.batch = 2;
  p.heads = 3;
  p.queries = 5;
  p.dim = 64;
  p.partitions = 4;
  std::vector<float> workspace(vggt::workspace_floats(p));
  p.workspace = workspace.data();
  const int64_t rows = 2 * 3 * 5;
  std::vector<int> used(workspace.size());
  for (int i = 0; i < p.partitions; ++i) {
    const vggt::PartitionState state = vggt::partition_state(p, i);
    EXPECT_EQ((state.w - p.workspace) % 4, 0);
    for (int64_t j = 0; j < rows; ++j) {
      ++used.at(&state.m2[j] - p.workspace);
      ++used.at(&state.s[j] - p.workspace);
    }
    for (int64_t j = 0; j < rows * p.dim; ++j) ++used.at(&state.w[j] - p.workspace);
  }
  EXPECT_EQ(used, std::vector<int>(workspace.size(), 1));
}

}  // namespace
