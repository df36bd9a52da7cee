#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/report/page.h"
#include "app/report/page_points.h"

namespace vggt {

/// What the page's script is told of the scene beside the report and the points.
nlohmann::ordered_json page_scene(const Report& report, const PageContent& content,
                                  const PackedPoints& points, int picture_width, int picture_height);

}  // namespace vggt
