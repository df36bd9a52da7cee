#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cstddef>
#include <random>
#include <vector>

#include "app/adjust/sighting_sums.h"

namespace {

using namespace vggt;

template <class Matrix>
Matrix random_matrix(std::mt19937& random, Eigen::Index rows, Eigen::Index columns) {
  std::normal_distribution<double> normal;
  Matrix matrix(rows, columns);
  for (double& value : matrix.reshaped()) value = normal(random);
  return matrix;
}

TEST(SightingSums, AreProductsOfLanes) {
  std::mt19937 random(3);
  for (const int anchor_lens : {0, 1, 4}) {
    for (const int lens : {0, 2, 4}) {
      LaneProducts sums = LaneProducts::Zero(), expected = sums;
      for (const double weight : {1.0, 0.3, 0.0}) {
        const auto rows = random_matrix<SightingRows>(random, 2, kLanes);
        Lanes with_depth;
        add_sighting(rows, weight, anchor_lens, lens, sums, with_depth);
        const Eigen::Matrix<double, kLanes, kLanes> all = weight * rows.transpose() * rows;
        const auto add = [&](int first, int count) {
          expected.middleRows(first, count) += all.middleRows(first, count);
        };
        add(kPoseLane, 6);
        add(kAnchorLensLane, anchor_lens);
        add(kLensLane, lens);
        EXPECT_LT((with_depth - all.col(kDepthLane)).norm(), 1e-13);
      }
      EXPECT_LT((sums - expected).norm(), 1e-13) << anchor_lens << " " << lens;
    }
  }
}

TEST(SightingSums, DepthsAreEliminatedByTheSchurComplement) {
  constexpr int kNodes = 11, kDepths = 40, kSide = 6 * kNodes;  // of two tiles a side
  constexpr double kDamping = 0.01;
  std::mt19937 random(4);
  std::uniform_int_distribution<int> count(1, kNodes), some(0, kNodes - 1);
  std::vector<DepthSums> depths;
  std::vector<DepthLink> links;
  std::vector<std::vector<LinkOfNode>> of_nodes(kNodes);
  Eigen::MatrixXd products = Eigen::MatrixXd::Zero(kSide, kDepths);  // of the nodes with the depths
  Eigen::VectorXd inverse(kDepths), slopes(kDepths);
  for (int i = 0; i < kDepths; ++i) {
    const auto own = random_matrix<Eigen::VectorXd>(random, 2, 1);
    const int first = static_cast<int>(links.size());
    for (int left = count(random); left > 0; --left) {
      // A node may be linked twice.
      const int node = some(random);
      of_nodes[static_cast<std::size_t>(node)].push_back({i, static_cast<int>(links.size())});
      links.push_back({node, random_matrix<Eigen::VectorXd>(random, 6, 1)});
      products.block<6, 1>(6 * node, i) += links.back().product;
    }
    depths.push_back({1 + own[0] * own[0], own[1], first, static_cast<int>(links.size())});
    inverse[i] = 1 / (depths.back().hessian * (1 + kDamping));
    slopes[i] = own[1];
  }
  const auto matrix = random_matrix<Eigen::MatrixXd>(random, kSide, kSide);
  const auto gradient = random_matrix<Eigen::VectorXd>(random, kSide, 1);
  const Eigen::MatrixXd expected = matrix - products * inverse.asDiagonal() * products.transpose();
  const Eigen::VectorXd expected_gradient = gradient - products * inverse.cwiseProduct(slopes);
  TiledMatrix found(kNodes);
  found.make(kNodes - 1, 0);
  for (int column = 0; column < kNodes; ++column) {
    for (int row = column; row < kNodes; ++row)
      found.block(row, column) = matrix.block<6, 6>(6 * row, 6 * column);
  }
  Eigen::VectorXd found_gradient = gradient;
  for (int column = 0; column < kNodes; ++column)
    eliminate_depths(column, of_nodes[static_cast<std::size_t>(column)], depths, links, kDamping, found,
                     &found_gradient[6 * column]);
  EXPECT_LT((found_gradient - expected_gradient).norm(), 1e-11);
  for (int column = 0; column < kNodes; ++column) {
    for (int row = column; row < kNodes; ++row)
      EXPECT_LT((found.block(row, column) - expected.block<6, 6>(6 * row, 6 * column)).norm(), 1e-11)
          << row << " " << column;
  }
}

}  // namespace
