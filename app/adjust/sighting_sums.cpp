#include "app/adjust/sighting_sums.h"

#include "io/files/clones.h"

namespace vggt {
namespace {

using Two [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = double;
using Four [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = double;
using Eight [[gnu::vector_size(64), gnu::aligned(8), gnu::may_alias]] = double;

}  // namespace

VGGT_CLONES void add_sighting(const SightingRows& rows, double weight, int anchor_lens_lanes, int lens_lanes,
                              LaneProducts& sums, Lanes& with_depth) {
  const double *const x = rows.data(), *const y = x + kLanes;
  const Eight *const of_x = reinterpret_cast<const Eight*>(x), *const of_y =
                                                                   reinterpret_cast<const Eight*>(y);
  const Eight x_low = weight * of_x[0], x_high = weight * of_x[1], y_low = weight * of_y[0],
              y_high = weight * of_y[1];
  Eight* const result = reinterpret_cast<Eight*>(with_depth.data());
  result[0] = x[kDepthLane] * x_low + y[kDepthLane] * y_low;
  result[1] = x[kDepthLane] * x_high + y[kDepthLane] * y_high;
  const auto add = [&](int first, int end) __attribute__((always_inline)) {
    for (int lane = first; lane < end; ++lane) {
      Eight* const sum = reinterpret_cast<Eight*>(sums.data() + kLanes * lane);
      sum[0] = sum[0] + x[lane] * x_low + y[lane] * y_low;
      sum[1] = sum[1] + x[lane] * x_high + y[lane] * y_high;
    }
  };
  add(kPoseLane, kAnchorLensLane);
  add(kAnchorLensLane, kAnchorLensLane + anchor_lens_lanes);
  add(kLensLane, kLensLane + lens_lanes);
}

VGGT_CLONES void eliminate_depths(int column, std::span<const LinkOfNode> of_node,
                                  const std::vector<DepthSums>& depths, const std::vector<DepthLink>& links,
                                  double damping, TiledMatrix& matrix, double* gradient) {
  for (const LinkOfNode& at : of_node) {
    const DepthSums& depth = depths[static_cast<std::size_t>(at.anchor)];
    const double inverse = 1 / (depth.hessian * (1 + damping));
    double scaled[6];
    for (int i = 0; i < 6; ++i) {
      scaled[i] = inverse * links[static_cast<std::size_t>(at.link)].product[i];
      gradient[i] -= depth.gradient * scaled[i];
    }
    for (int i = depth.first; i < depth.end; ++i) {
      const DepthLink& link = links[static_cast<std::size_t>(i)];
      if (link.node < column) continue;
      const Four first = *reinterpret_cast<const Four*>(link.product.data());
      const Two last = *reinterpret_cast<const Two*>(link.product.data() + 4);
      double* block = matrix.place(link.node, column);
      for (int k = 0; k < 6; ++k, block += TiledMatrix::kSide) {
        *reinterpret_cast<Four*>(block) -= first * scaled[k];
        *reinterpret_cast<Two*>(block + 4) -= last * scaled[k];
      }
    }
  }
}

}  // namespace vggt
