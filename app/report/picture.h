#pragma once
#include <vector>

#include "app/report/picture_canvas.h"
#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"

namespace vggt {

/// The colour of camera `i` of `count`: blue for the first, over green and yellow, to red for the last.
Canvas::Color camera_color(std::size_t i, std::size_t count);

/// The cloud as discs that close the gaps between points, and the valid cameras as frustums in the colours of
/// camera_color(), seen from where picture_view() chooses. Cloud and cameras may be empty.
Picture draw_picture(const PointCloud& cloud, const std::vector<Camera>& cameras, int width, int height);

}  // namespace vggt
