#pragma once
#include <Eigen/Core>
#include <span>
#include <vector>

#include "app/adjust/tiled_matrix.h"

// The inner loops of a bundle adjustment: sums over sightings, and their anchors' depths taken off them. On
// vectors of the processor's instruction set.
namespace vggt {

using Vector6d = Eigen::Matrix<double, 6, 1>;

/// Derivatives of the two numbers of a sighting's error, in lanes side by side: by the pose of its camera
/// (translation, rotation from the left), by the lens of its anchor's camera and by its own lens (log focal
/// length, log aspect, k1, k2 each), by the anchor's log_depth; before that the error itself. Where both
/// lenses are the same, the anchor's lanes hold the sum and the others 0.
constexpr int kPoseLane = 0, kAnchorLensLane = 6, kLensLane = 10, kErrorLane = 14, kDepthLane = 15,
              kLanes = 16;
using Lanes = Eigen::Matrix<double, kLanes, 1>;
using SightingRows = Eigen::Matrix<double, 2, kLanes, Eigen::RowMajor>;

/// Weighted products of lanes, summed over sightings: of each lane that is adjusted with all lanes.
using LaneProducts = Eigen::Matrix<double, kErrorLane, kLanes, Eigen::RowMajor>;

/// Adds a sighting to `sums`; of the rows of each lens only the first ones, as many as are said. Writes the
/// products of all lanes with log_depth.
void add_sighting(const SightingRows& rows, double weight, int anchor_lens_lanes, int lens_lanes,
                  LaneProducts& sums, Lanes& with_depth);

/// A pose or a lens that an anchor's depth depends on, and their product: six numbers of which lenses use
/// four.
struct DepthLink {
  int node;
  Vector6d product;
};
/// An anchor's depth: products with itself and with the errors, and the links [first, end).
struct DepthSums {
  double hessian, gradient;
  int first, end;
};
/// Where a node is linked with a depth.
struct LinkOfNode {
  int anchor, link;
};

/// Takes what depths say of their nodes off the equations, in the column of one node. of_node: its links.
/// matrix: of all nodes; has a tile wherever two share a depth. gradient: the column's six numbers.
void eliminate_depths(int column, std::span<const LinkOfNode> of_node, const std::vector<DepthSums>& depths,
                      const std::vector<DepthLink>& links, double damping, TiledMatrix& matrix,
                      double* gradient);

}  // namespace vggt
