#pragma once
#include <Eigen/Geometry>
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "app/adjust/sighting_error.h"
#include "app/adjust/sighting_sums.h"
#include "app/adjust/tiled_matrix.h"

// What the sightings of a bundle add up to.
namespace vggt {

using Matrix6d = Eigen::Matrix<double, 6, 6>;

/// The adjoint of a pose that leads from camera a to camera b: turns a small motion (translation, rotation)
/// in a into the same one in b.
inline Matrix6d adjoint(const Eigen::Isometry3d& pose) {
  Matrix6d result;
  result << pose.linear(), skew(pose.translation()) * pose.linear(), Eigen::Matrix3d::Zero(), pose.linear();
  return result;
}

/// Sums over sightings of one frame's anchors, by the frame that has the sightings.
class SumsByFrame {
 public:
  explicit SumsByFrame(std::size_t frames) : place_(frames, kNone) {}

  LaneProducts& of(int frame) {
    std::size_t& place = place_[static_cast<std::size_t>(frame)];
    if (place == kNone) {
      place = used_.size();
      used_.push_back(frame);
      sums_.resize(std::max(sums_.size(), used_.size()));
      sums_[place].setZero();
    }
    return sums_[place];
  }
  /// Calls take(frame, sums) for each frame that has some, and forgets them.
  template <class Take>
  void take_all(Take&& take) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      take(used_[i], sums_[i]);
      place_[static_cast<std::size_t>(used_[i])] = kNone;
    }
    used_.clear();
  }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> place_;  // of each frame's sums
  std::vector<LaneProducts> sums_;
  std::vector<int> used_;  // frames
};

/// The normal equations of poses and lenses; each is a node of six unknowns, of which lenses use four.
struct Equations {
  explicit Equations(TiledMatrix empty)
      : hessian(std::move(empty)), gradient(Eigen::VectorXd::Zero(hessian.rows())) {}

  void set_zero() {
    hessian.set_zero();
    gradient.setZero();
  }
  void add(std::span<const Equations> parts) {
    std::vector<const TiledMatrix*> hessians;
    for (const Equations& part : parts) {
      hessians.push_back(&part.hessian);
      gradient += part.gradient;
    }
    hessian.add(hessians);
  }

  /// Adds the product of two nodes; nothing where one is none.
  template <class Product>
  void add_product(int row, int column, const Product& product) {
    if (row < 0 || column < 0) return;
    if (row < column) return add_block(column, row, product.transpose());
    add_block(row, column, product);
  }
  template <class Gradient>
  void add_gradient(int node, const Gradient& by_node) {
    constexpr int kCount = Gradient::RowsAtCompileTime;
    if (node >= 0) gradient.segment<kCount>(TiledMatrix::kBlock * node) += by_node;
  }
  template <class Product>
  void add_block(int row, int column, const Product& product) {
    constexpr int kRows = Product::RowsAtCompileTime, kColumns = Product::ColsAtCompileTime;
    hessian.block(row, column).template topLeftCorner<kRows, kColumns>() += product;
  }

  TiledMatrix hessian;
  Eigen::VectorXd gradient;
};

}  // namespace vggt
