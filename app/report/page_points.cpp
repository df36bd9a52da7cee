#include "app/report/page_points.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "app/scene/mixed.h"

namespace vggt {
namespace {

using Eigen::Vector3f;

float quantile(std::vector<float>& values, double share) {
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, place);
  return *place;
}

/// A number of the cube that a point lies in, never 0.
uint64_t cube_of(const Vector3f& point, float side) {
  constexpr int64_t kHalf = 1 << 20;  // cubes from the origin on each axis; what is farther shares the last
  uint64_t cube = 0;
  for (const float coordinate : point) {
    const double at = std::clamp(static_cast<double>(coordinate / side), -1.0 * kHalf, 1.0 * (kHalf - 1));
    const auto towards_zero = static_cast<int64_t>(at);  // floor() would be a call
    const int64_t place = towards_zero - (at < static_cast<double>(towards_zero) ? 1 : 0);
    cube = cube << 21 | static_cast<uint64_t>(place + kHalf);
  }
  return cube + 1;
}

/// The first point in each cube, in their order.
std::vector<uint32_t> one_in_each_cube(const PointCloud& cloud, float side) {
  constexpr std::size_t kAhead = 64;  // points whose places come into the cache while others are looked up
  // The cubes that were met, each at the first free place from its own on; 0: free. Half of them stay free.
  std::vector<uint64_t> met(std::bit_ceil(2 * cloud.points.size() + 1), 0);
  const std::size_t mask = met.size() - 1;
  std::array<std::pair<uint64_t, std::size_t>, kAhead> cubes;
  std::vector<uint32_t> chosen;
  for (std::size_t first = 0; first < cloud.points.size(); first += kAhead) {
    const std::size_t count = std::min(kAhead, cloud.points.size() - first);
    for (std::size_t k = 0; k < count; ++k) {
      const uint64_t cube = cube_of(cloud.points[first + k], side);
      cubes[k] = {cube, mixed(cube) & mask};
      __builtin_prefetch(&met[cubes[k].second]);
    }
    for (std::size_t k = 0; k < count; ++k) {
      auto [cube, place] = cubes[k];
      while (met[place] != 0 && met[place] != cube) place = (place + 1) & mask;
      if (met[place] == cube) continue;
      met[place] = cube;
      chosen.push_back(static_cast<uint32_t>(first + k));
    }
  }
  return chosen;
}

}  // namespace

PointCloud thinned_evenly(const PointCloud& cloud, std::size_t most) {
  if (cloud.points.size() <= most) return cloud;
  constexpr int kSteps = 9, kMostSteps = 60;
  constexpr double kEnough = 0.93;  // of the most
  Eigen::AlignedBox3f box;
  for (const Vector3f& point : cloud.points) box.extend(point);
  double low = 0, high = 2 * static_cast<double>(box.diagonal().norm()) + 1e-6;
  // As if the points lay on the sides of a box of a tenth of the size: few lie far off.
  double side = 0.05 * high * std::sqrt(6.0 / static_cast<double>(most));
  std::vector<uint32_t> chosen;
  for (int step = 0; step < kSteps || (chosen.empty() && step < kMostSteps); ++step) {
    std::vector<uint32_t> found = one_in_each_cube(cloud, static_cast<float>(side));
    const bool fits = found.size() <= most;
    const bool enough = static_cast<double>(found.size()) >= kEnough * static_cast<double>(most);
    (fits ? high : low) = side;
    const double share = std::sqrt(static_cast<double>(found.size()) / (0.97 * static_cast<double>(most)));
    if (fits && found.size() > chosen.size()) chosen = std::move(found);
    if (fits && enough) break;
    const double next = side * std::clamp(share, 0.2, 5.0);
    side = next > low && next < high ? next : (low + high) / 2;
  }
  PointCloud thinned;
  for (const uint32_t i : chosen) thinned.add(cloud, i);
  return thinned;
}

PackedPoints packed_points(const PointCloud& cloud) {
  PackedPoints packed;
  if (cloud.points.empty()) return packed;
  constexpr double kBorder = 0.01;  // share of the points that does not say how large the box is
  constexpr float kMargin = 1.5F;   // of the box on each side
  Vector3f high;
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<float> values;
    const std::size_t step = cloud.points.size() / 100'000 + 1;
    for (std::size_t i = 0; i < cloud.points.size(); i += step) values.push_back(cloud.points[i][axis]);
    const float least = quantile(values, 0), most = quantile(values, 1);
    const float low = quantile(values, kBorder), top = quantile(values, 1 - kBorder);
    const float margin = kMargin * (top - low);
    packed.low[axis] = std::max(least, low - margin);
    high[axis] = std::min(most, top + margin);
  }
  packed.side = (high - packed.low).cwiseMax(1e-6F);
  std::vector<uint8_t> colors;
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    const Vector3f share = (cloud.points[i] - packed.low).cwiseQuotient(packed.side);
    if (!((share.array() >= 0).all() && (share.array() <= 1).all())) continue;
    for (int axis = 0; axis < 3; ++axis) {
      const auto place = static_cast<uint32_t>(std::lround(share[axis] * 65535));
      packed.bytes.push_back(static_cast<uint8_t>(place & 255U));
      packed.bytes.push_back(static_cast<uint8_t>(place >> 8));
    }
    colors.insert(colors.end(), cloud.colors[i].data(), cloud.colors[i].data() + 3);
    ++packed.count;
  }
  packed.bytes.insert(packed.bytes.end(), colors.begin(), colors.end());
  return packed;
}

}  // namespace vggt
