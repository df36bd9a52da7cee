// A matrix in tiles factorises and solves as a dense one.
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <random>

#include "app/adjust/tiled_matrix.h"

namespace {

using namespace vggt;

constexpr int kBlock = TiledMatrix::kBlock;

struct Both {
  TiledMatrix tiled;
  Eigen::MatrixXd dense;
};

/// A positive definite matrix of so many blocks: each block with those up to `reach` after it, and with the
/// last one.
Both matrix_of(int blocks, int reach, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Both both{TiledMatrix(blocks), Eigen::MatrixXd::Zero(kBlock * blocks, kBlock * blocks)};
  for (int row = 0; row < blocks; ++row) {
    for (int column = 0; column <= row; ++column) {
      if (row - column > reach && row != blocks - 1) continue;
      both.tiled.make(row, column);
      TiledMatrix::Block block = TiledMatrix::Block::NullaryExpr([&] { return normal(random); });
      if (row == column)
        block = (block * block.transpose()).eval() + 40.0 * blocks * TiledMatrix::Block::Identity();
      both.tiled.block(row, column) = block;
      both.dense.block<kBlock, kBlock>(kBlock * row, kBlock * column) = block;
    }
  }
  both.dense = both.dense.selfadjointView<Eigen::Lower>();
  return both;
}

class TiledMatrixOf : public testing::TestWithParam<std::pair<int, int>> {};  // blocks, reach

TEST_P(TiledMatrixOf, SolvesAsADenseOne) {
  const auto [blocks, reach] = GetParam();
  Both both = matrix_of(blocks, reach, 3);
  both.tiled.damp(1);  // the rows that fill the last tile
  Eigen::VectorXd right = Eigen::VectorXd::Zero(both.tiled.rows());
  right.head(kBlock * blocks).setLinSpaced(-1, 2);
  const Eigen::VectorXd expected = both.dense.llt().solve(right.head(kBlock * blocks));
  ASSERT_TRUE(both.tiled.factorise());
  const Eigen::VectorXd found = both.tiled.solve(right);
  EXPECT_LT((found.head(kBlock * blocks) - expected).norm(), 1e-10 * expected.norm());
  EXPECT_EQ(found.tail(found.size() - kBlock * blocks).norm(), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TiledMatrixOf,
                         testing::Values(std::pair(1, 0), std::pair(7, 2), std::pair(8, 8), std::pair(9, 1),
                                         std::pair(40, 0), std::pair(40, 3), std::pair(41, 12),
                                         std::pair(30, 30)));

TEST(TiledMatrix, WhatIsNotPositiveDefiniteIsRefused) {
  Both both = matrix_of(20, 2, 4);
  both.tiled.block(12, 12).diagonal().array() -= 1e6;
  EXPECT_FALSE(both.tiled.factorise());
}

TEST(TiledMatrix, SumsAndDamping) {
  Both both = matrix_of(9, 1, 5);
  TiledMatrix sum = both.tiled;
  sum.add({&both.tiled});
  EXPECT_EQ(sum.block(8, 3)(2, 4), 2 * both.dense(8 * kBlock + 2, 3 * kBlock + 4));
  sum.set_zero();
  sum.add({&both.tiled});
  sum.block(2, 2).setZero();
  sum.damp(1.5);
  EXPECT_EQ(sum.block(2, 2), TiledMatrix::Block(TiledMatrix::Block::Identity()));
  EXPECT_EQ(sum.block(4, 4)(1, 1), 1.5 * both.dense(4 * kBlock + 1, 4 * kBlock + 1));
  EXPECT_EQ(sum.block(4, 4)(2, 1), both.dense(4 * kBlock + 2, 4 * kBlock + 1));
}

}  // namespace
