#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/report/page.h"

namespace vggt {

/// Points as the page's script reads them: [N,3] 16-bit places in a box, then [N,3] colours.
struct PackedPoints {
  Eigen::Vector3f low = Eigen::Vector3f::Zero(), side = Eigen::Vector3f::Ones();  // of the box
  int64_t count = 0;
  std::vector<uint8_t> bytes;
};

/// The points that lie in or near the box of most of them: a few that lie far off would make all others
/// coarse.
PackedPoints packed_points(const PointCloud& cloud);

/// What the page's script is told of the scene beside the report and the points.
nlohmann::ordered_json page_scene(const Report& report, const PageContent& content,
                                  const PackedPoints& points, int picture_width, int picture_height);

}  // namespace vggt
