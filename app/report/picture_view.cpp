#include "app/report/picture_view.h"

#include <Eigen/Eigenvalues>
#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "io/scene/image_view.h"

namespace vggt {
namespace {

using Eigen::Matrix3d, Eigen::Vector3d;

constexpr double kFieldOfView = 42 * std::numbers::pi / 180;  // of the longer side
constexpr double kBorder = 0.015;                             // share of points beyond each border
constexpr double kMargin = 0.95;                              // share of the picture that is filled

/// The quantile `share` of at least one value.
double quantile(std::vector<double> values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, values.size()) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

/// Some of the points, enough to tell where most of them are.
std::vector<Vector3d> sample(const std::vector<Eigen::Vector3f>& points) {
  constexpr std::size_t kEnough = 100'000;
  std::vector<Vector3d> some;
  const std::size_t step = points.size() / kEnough + 1;
  for (std::size_t i = 0; i < points.size(); i += step) some.push_back(points[i].cast<double>());
  return some;
}

std::vector<double> along(const std::vector<Vector3d>& points, const Vector3d& direction) {
  std::vector<double> values;
  for (const Vector3d& point : points) values.push_back(direction.dot(point));
  return values;
}

/// The diagonal of a box around most of the points; 0 without any.
double extent(const std::vector<Vector3d>& points) {
  if (points.empty()) return 0;
  Vector3d size;
  for (int axis = 0; axis < 3; ++axis) {
    const std::vector<double> values = along(points, Vector3d::Unit(axis));
    size(axis) = quantile(values, 1 - kBorder) - quantile(values, kBorder);
  }
  return size.norm();
}

/// How far in front of the cameras their images are drawn.
double frustum_depth(const std::vector<Vector3d>& centres, double scene) {
  if (centres.size() < 2) return 0.05 * scene;
  std::vector<double> steps;
  for (std::size_t i = 1; i < centres.size(); ++i) steps.push_back((centres[i] - centres[i - 1]).norm());
  return std::clamp(quantile(steps, 0.5), 0.02 * scene, 0.05 * scene);
}

/// What the corner of an image shows; without the distortion where that shows nothing there.
Vector3d corner_ray(Camera camera, const Eigen::Vector2d& corner) {
  const Vector3d ray = camera.ray(corner);
  if (ray.allFinite()) return ray;
  camera.distortion.setZero();
  return camera.ray(corner);
}

/// Of the original image, as far as its size is known.
Frustum frustum_of(const Camera& network, double depth) {
  const Camera camera = network.original_width > 0 ? original_camera(network) : network;
  const Matrix3d world_from_cam = camera.cam_from_world.linear().transpose();
  Frustum frustum{camera.center(), {}};
  const std::array<std::array<int, 2>, 4> corners = {{{0, 0}, {1, 0}, {1, 1}, {0, 1}}};
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Eigen::Vector2d corner(corners[i][0] * camera.width - .5, corners[i][1] * camera.height - .5);
    frustum.corners[i] = frustum.centre + depth * (world_from_cam * corner_ray(camera, corner));
  }
  return frustum;
}

/// Which way the cameras look on the whole.
struct Heading {
  Vector3d up{0, -1, 0}, ahead{0, 0, 1};  // unit vectors at right angles
  double pitch = 0;                       // radians by which the cameras look down, on average
};

/// The direction that is up. Cameras are mostly held level, so up is at right angles to their right-hand
/// axes; where these axes have much the same direction, the tops of the images decide.
Vector3d upright(const std::vector<Frustum>& frustums) {
  Matrix3d sideways = Matrix3d::Zero();
  Vector3d tops = Vector3d::Zero();
  for (const Frustum& f : frustums) {
    const Vector3d right = (f.corners[1] - f.corners[0]).normalized();
    sideways += right * right.transpose();
    tops += (f.corners[0] - f.corners[3]).normalized();
  }
  if (!(tops.norm() > 0)) return {0, -1, 0};
  tops.normalize();
  constexpr double kTrustInTops = 0.02;
  const Matrix3d off_tops = Matrix3d::Identity() - tops * tops.transpose();
  const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(sideways / static_cast<double>(frustums.size()) +
                                                       kTrustInTops * off_tops);
  const Vector3d up = solver.eigenvectors().col(0);
  return up.dot(tops) < 0 ? -up : up;
}

Vector3d direction_of(const Frustum& f) {
  return ((f.corners[0] + f.corners[2]) / 2 - f.centre).normalized();
}

Heading heading_of(const std::vector<Frustum>& frustums) {
  Heading heading;
  if (frustums.empty()) return heading;
  heading.up = upright(frustums);
  const auto level = [&](const Vector3d& v) { return Vector3d(v - heading.up * heading.up.dot(v)); };
  Vector3d mean = Vector3d::Zero();
  for (const Frustum& f : frustums) {
    mean += direction_of(f) / static_cast<double>(frustums.size());
    heading.pitch += std::asin(std::clamp(-heading.up.dot(direction_of(f)), -1.0, 1.0)) /
                     static_cast<double>(frustums.size());
  }
  constexpr double kAgree = 0.2;  // below it cameras look all around, and the first one decides
  Vector3d ahead = level(mean);
  if (ahead.norm() < kAgree) ahead = level(direction_of(frustums.front()));
  if (ahead.norm() < kAgree) ahead = level(frustums.front().corners[0] - frustums.front().corners[3]);
  if (ahead.norm() > 0) heading.ahead = ahead.normalized();
  return heading;
}

/// Rows are the axes of a view that looks ahead and down.
Matrix3d view_axes(const Heading& heading) {
  constexpr double kDegree = std::numbers::pi / 180;
  const double down = std::clamp(heading.pitch + 10 * kDegree, 25 * kDegree, 55 * kDegree);
  const Vector3d forward = std::cos(down) * heading.ahead - std::sin(down) * heading.up;
  const Vector3d right = heading.ahead.cross(heading.up).normalized();
  Matrix3d axes;
  axes << right.transpose(), forward.cross(right).transpose(), forward.transpose();
  return axes;
}

/// An eye's place along one axis of the picture and along the view, in the view's axes.
struct EyePlace {
  double across, ahead;
};

/// The foremost place from which both borders of one axis leave out their share of what is drawn. A point at
/// (x, z) is inside of a border that rises by `slope` where ±(x - across) <= slope (z - ahead). `cameras`
/// holds the points that are drawn of each camera.
EyePlace eye_place(const std::vector<Vector3d>& points, const std::vector<std::vector<Vector3d>>& cameras,
                   int axis, double slope) {
  const auto border = [&](double sign) {
    const Vector3d off = sign * Vector3d::Unit(axis) - slope * Vector3d::UnitZ();
    std::vector<double> farthest;
    for (const std::vector<Vector3d>& camera : cameras)
      farthest.push_back(std::ranges::max(along(camera, off)));
    double most = -std::numeric_limits<double>::infinity();
    if (!points.empty()) most = quantile(along(points, off), 1 - kBorder);
    return farthest.empty() ? most : std::max(most, quantile(farthest, 1 - kBorder));
  };
  const double high = border(1), low = border(-1);
  return {(high - low) / 2, -(high + low) / (2 * slope)};
}

std::vector<Vector3d> turned(std::vector<Vector3d> points, const Matrix3d& axes) {
  for (Vector3d& point : points) point = axes * point;
  return points;
}

}  // namespace

std::vector<Frustum> frustums_of(const std::vector<Camera>& cameras,
                                 const std::vector<Eigen::Vector3f>& points) {
  std::vector<Vector3d> centres;
  for (const Camera& camera : cameras) {
    if (camera.valid) centres.push_back(camera.center());
  }
  std::vector<Vector3d> all = sample(points);
  all.insert(all.end(), centres.begin(), centres.end());
  const double scene = extent(all);
  const double depth = frustum_depth(centres, scene > 0 ? scene : 1);
  std::vector<Frustum> frustums;
  for (const Camera& camera : cameras) {
    if (camera.valid) frustums.push_back(frustum_of(camera, depth));
  }
  return frustums;
}

PictureView picture_view(const std::vector<Eigen::Vector3f>& points, const std::vector<Frustum>& frustums,
                         int width, int height) {
  const Heading heading = heading_of(frustums);
  const Matrix3d axes = view_axes(heading);
  std::vector<std::vector<Vector3d>> cameras;
  std::vector<double> depths;
  for (const Frustum& f : frustums) {
    std::vector<Vector3d>& camera = cameras.emplace_back(f.corners.begin(), f.corners.end());
    camera.push_back(f.centre);
    camera = turned(camera, axes);
    depths.push_back(std::ranges::min(along(camera, Vector3d::UnitZ())));
  }
  const std::vector<Vector3d> all = turned(sample(points), axes);
  std::vector<Vector3d> shown;
  std::optional<double> nearest;
  if (!cameras.empty()) nearest = quantile(depths, kBorder) - 0.02 * extent(all);
  for (const Vector3d& point : all) {
    if (!nearest || point.z() >= *nearest) shown.push_back(point);
  }
  PictureView view;
  view.up = heading.up;
  view.view_from_world.linear() = axes;
  view.focal = std::max(width, height) / (2 * std::tan(kFieldOfView / 2));
  if (shown.empty() && cameras.empty()) return view;
  const EyePlace x = eye_place(shown, cameras, 0, kMargin * width / (2 * view.focal));
  const EyePlace y = eye_place(shown, cameras, 1, kMargin * height / (2 * view.focal));
  Vector3d eye(x.across, y.across, std::min(x.ahead, y.ahead));
  if (cameras.empty() && !(extent(all) > 0)) eye.z() -= 1;  // all points are one
  view.view_from_world.translation() = -eye;
  view.nearest = nearest.value_or(eye.z()) - eye.z();
  return view;
}

}  // namespace vggt
