#include "app/report/page_scene.h"

#include <algorithm>
#include <cmath>

#include "app/report/picture_view.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

using Eigen::Vector3d, Eigen::Vector3f;
using Json = nlohmann::ordered_json;

constexpr std::size_t kPlanPoints = 1500;  // of the view from above

Json rounded(const Vector3d& v) {
  Json json = Json::array();
  for (int i = 0; i < 3; ++i) json.push_back(static_cast<double>(static_cast<float>(v[i])));
  return json;
}

float quantile(std::vector<float>& values, double share) {
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, place);
  return *place;
}

/// Of each frame with a camera where it stands and what it sees.
Json cameras_json(const PageContent& content, const std::vector<Frustum>& frustums) {
  Json json = Json::array();
  std::size_t next = 0;
  for (const FrameCamera& frame : content.cameras) {
    if (!frame.camera.valid) {
      json.push_back(nullptr);
      continue;
    }
    const Frustum& frustum = frustums[next++];
    Json corners = Json::array();
    for (const Vector3d& corner : frustum.corners) corners.push_back(rounded(corner));
    const Vector3d look = frame.camera.cam_from_world.linear().row(2).transpose();
    std::optional<double> fov = frame.camera.fov_x_rad();
    if (!fov)
      fov = frame.camera.fov_x_rad(/*undistorted=*/true);  // the distortion shows nothing at the sides
    json.push_back({{"center", rounded(frustum.centre)},
                    {"corners", corners},
                    {"look", rounded(look)},
                    {"fov", fov.value_or(0) * 180 / EIGEN_PI}});
  }
  return json;
}

/// The median distance of the points along a view's axis, and that of the nearest cameras.
double typical_depth(const PointCloud& cloud, const std::vector<Frustum>& frustums, const PictureView& view) {
  std::vector<double> depths;
  const std::size_t step = cloud.points.size() / 20'000 + 1;
  for (std::size_t i = 0; i < cloud.points.size(); i += step) {
    const double depth = (view.view_from_world * cloud.points[i].cast<double>()).z();
    if (depth > 0 && depth >= view.nearest) depths.push_back(depth);
  }
  if (depths.empty()) {
    for (const Frustum& frustum : frustums) depths.push_back((view.view_from_world * frustum.centre).z());
  }
  return depths.empty() ? 1 : std::max(1e-6, median(std::span(depths)));
}

/// A step between points that leaves few gaps: the median distance of neighbours if they lay on surfaces.
double spacing(const PackedPoints& points, double depth, const PictureView& view, int width, int height) {
  if (points.count == 0) return 0;
  // As if half of the picture were covered evenly at the typical depth.
  const double area = 0.5 * width * height * (depth / view.focal) * (depth / view.focal);
  return 2.4 * std::sqrt(area / static_cast<double>(points.count));
}

/// The axes of the ground, and some points seen from above.
void add_ground(const PointCloud& cloud, const Vector3d& up, Json& json) {
  const Vector3d aside = std::abs(up.x()) < 0.9 ? Vector3d::UnitX() : Vector3d::UnitZ();
  const Vector3d east = Vector3d(aside - up * up.dot(aside)).normalized(), north = up.cross(east);
  json["ground"] = {{"east", rounded(east)}, {"north", rounded(north)}};
  std::vector<float> across, along;
  const std::size_t step = cloud.points.size() / kPlanPoints + 1;
  for (std::size_t i = 0; i < cloud.points.size(); i += step) {
    const Vector3d point = cloud.points[i].cast<double>();
    across.push_back(static_cast<float>(east.dot(point)));
    along.push_back(static_cast<float>(north.dot(point)));
  }
  Json plan = Json::array();
  if (!across.empty()) {
    std::vector<float> a = across, b = along;
    constexpr double kBorder = 0.03;  // share of points beyond each side
    const float west = quantile(a, kBorder), far_east = quantile(a, 1 - kBorder);
    const float south = quantile(b, kBorder), far_north = quantile(b, 1 - kBorder);
    for (std::size_t i = 0; i < across.size(); ++i) {
      const bool inside =
          across[i] >= west && across[i] <= far_east && along[i] >= south && along[i] <= far_north;
      if (!inside) continue;
      plan.push_back(std::round(1000 * across[i]) / 1000);
      plan.push_back(std::round(1000 * along[i]) / 1000);
    }
  }
  json["plan"] = plan;
}

/// The names of the options that are not as they are when nothing is said.
Json given_options(const Report& report) {
  const auto options_of = [](const Report& of) { return Json::parse(report_text(of)).at("options"); };
  const Json options = options_of(report), usual = options_of(Report());
  Json given = Json::array();
  for (const auto& [name, value] : options.items()) {
    if (value != usual.at(name)) given.push_back(name);
  }
  return given;
}

}  // namespace

Json page_scene(const Report& report, const PageContent& content, const PackedPoints& points,
                int picture_width, int picture_height) {
  std::vector<Camera> cameras;
  for (const FrameCamera& frame : content.cameras) cameras.push_back(frame.camera);
  const std::vector<Frustum> frustums = frustums_of(cameras, content.cloud.points);
  const PictureView view = picture_view(content.cloud.points, frustums, picture_width, picture_height);
  const double depth = typical_depth(content.cloud, frustums, view);
  const Eigen::Isometry3d world_from_view = view.view_from_world.inverse();
  Json json;
  json["name"] = content.name;
  json["cameras"] = cameras_json(content, frustums);
  while (json["cameras"].size() < report.frames_used.size()) json["cameras"].push_back(nullptr);
  json["view"] = {{"eye", rounded(world_from_view.translation())},
                  {"forward", rounded(world_from_view.linear().col(2))},
                  {"up", rounded(view.up)},
                  {"aspect", static_cast<double>(picture_width) / picture_height},
                  {"fov", 2 * std::atan(picture_height / (2 * view.focal))},
                  {"distance", depth},
                  {"nearest", std::max(0.0, view.nearest)},
                  {"reach", std::max<double>(points.side.norm(), depth)},
                  {"spacing", spacing(points, depth, view, picture_width, picture_height)}};
  json["points"] = nullptr;
  if (points.count > 0) {
    json["points"] = {{"count", points.count},
                      {"low", rounded(points.low.cast<double>())},
                      {"side", rounded(points.side.cast<double>())}};
  }
  add_ground(content.cloud, view.up, json);
  json["given"] = given_options(report);
  return json;
}

}  // namespace vggt
