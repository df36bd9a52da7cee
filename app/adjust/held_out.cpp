#include "app/adjust/held_out.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "app/adjust/known_poses.h"
#include "app/adjust/sighting_error.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr uint64_t kOneOf = 10;

bool is_held_out(const Sighting& sighting) {
  uint64_t key =
      static_cast<uint64_t>(sighting.anchor) * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(sighting.frame);
  key = (key ^ (key >> 31)) * 0xBF58476D1CE4E5B9U;
  return (key >> 32) % kOneOf == 0;
}

/// The distance of the point of a pixel from a line of the plane z = 1, in pixels.
double from_line_px(const Lens& lens, const Eigen::Vector2d& normal, const Eigen::Vector3d& line) {
  const Eigen::Vector2d across = line.head<2>().cwiseQuotient(lens.focal);  // the line, of undistorted pixels
  return std::abs(line.dot(normal.homogeneous())) / across.norm();
}

/// Its distance from where a ray shows, in pixels.
double from_ray_px(const Lens& lens, const Eigen::Vector2d& normal, const Eigen::Vector3d& ray) {
  if (!(ray.z() > 0)) return std::numeric_limits<double>::infinity();
  return (ray.hnormalized() - normal).cwiseProduct(lens.focal).norm();
}

}  // namespace

std::vector<Sighting> hold_out(std::vector<Sighting>& sightings) {
  std::vector<Sighting> out;
  std::ranges::copy_if(sightings, std::back_inserter(out), is_held_out);
  std::erase_if(sightings, is_held_out);
  return out;
}

std::vector<double> epipolar_errors(const Bundle& cameras, const std::vector<Anchor>& anchors,
                                    const std::vector<Sighting>& sightings) {
  std::vector<double> errors;
  for (const Sighting& sighting : sightings) {
    const Anchor& anchor = anchors[static_cast<std::size_t>(sighting.anchor)];
    const auto from = static_cast<std::size_t>(anchor.frame), to = static_cast<std::size_t>(sighting.frame);
    const Lens &lens = cameras.lenses[static_cast<std::size_t>(cameras.lens_of[from])],
               &other = cameras.lenses[static_cast<std::size_t>(cameras.lens_of[to])];
    const Eigen::Isometry3d relative = cameras.poses[to] * cameras.poses[from].inverse();
    const Eigen::Matrix3d turn = relative.linear(), essential = skew(relative.translation()) * turn;
    const Eigen::Vector2d here = seen_at(lens, anchor.pixel), there = seen_at(other, sighting.pixel);
    const double both = are_in_one_place(cameras.poses[from], cameras.poses[to])
                            ? from_ray_px(other, there, turn * here.homogeneous()) +
                                  from_ray_px(lens, here, turn.transpose() * there.homogeneous())
                            : from_line_px(other, there, essential * here.homogeneous()) +
                                  from_line_px(lens, here, essential.transpose() * there.homogeneous());
    const double error = both / 2;
    errors.push_back(std::isfinite(error) ? error : 1e9);
  }
  return errors;
}

bool mostly_smaller(const std::vector<double>& errors, const std::vector<double>& before) {
  double smaller = 0, larger = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) (errors[i] < before[i] ? smaller : larger) += 1;
  return smaller - larger > 2 * std::sqrt(smaller + larger);
}

CostChange cost_change(const std::vector<double>& errors, const std::vector<double>& before) {
  if (errors.size() < 2) return {1, 0};
  std::vector<double> sorted = before;
  const double scale = std::max(median(std::span(sorted)), 1e-6);
  double sum_before = 0, fall = 0, squares = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double cost = std::log1p(std::pow(before[i] / scale, 2)),
                 change = cost - std::log1p(std::pow(errors[i] / scale, 2));
    sum_before += cost;
    fall += change;
    squares += change * change;
  }
  if (!(sum_before > 0)) return {1, 0};
  const auto count = static_cast<double>(errors.size());
  const double variance = (squares - fall * fall / count) * count / (count - 1);  // of the sum
  return {1 - fall / sum_before, fall / std::sqrt(std::max(variance, 1e-12))};
}

}  // namespace vggt
