#include "app/scene/depth_agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vggt {

struct DepthAgreement::Sample {
  Eigen::Vector3d point;  // in world
  double depth = std::numeric_limits<double>::quiet_NaN();
};

namespace {

constexpr double kParallax =
    0.087;  // radians (5°): a smaller angle between two views makes a point count less
constexpr double kLeastWeight = 0.05;
constexpr double kNear =
    0.5;  // a point much nearer or farther than what a frame sees there is hidden from it

/// Samples on each side of a frame: fewer where there are many pairs of frames.
int samples_a_side(std::size_t frames) {
  return frames <= 2000 ? 8 : 4;
}

}  // namespace

DepthAgreement::DepthAgreement(const std::vector<Camera>& cameras, int width, int height,
                               const ReadDepth& read_depth, int partners, const FrameWork& work)
    : cameras_(cameras), width_(width), height_(height), read_depth_(read_depth), partners_(cameras.size()) {
  const int frames = static_cast<int>(cameras.size()), side = samples_a_side(cameras.size());
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(threads_for(work, frames)));
  std::vector<std::vector<Sample>> samples(cameras.size());
  for_each_frame(work, frames, [&](int frame, int thread) {
    samples[static_cast<std::size_t>(frame)] =
        samples_of(frame, side, buffers[static_cast<std::size_t>(thread)]);
  });
  for_each_frame(work, frames, [&](int frame, int) {
    const auto f = static_cast<std::size_t>(frame);
    std::vector<std::pair<double, int>> found;  // minus the overlap, frame
    for (int other = 0; other < frames; ++other) {
      if (other == frame || samples[f].empty()) continue;
      const double value = overlap(samples[f], frame, other, samples[static_cast<std::size_t>(other)], side);
      if (value > 0) found.emplace_back(-value, other);
    }
    const auto count = std::min(found.size(), static_cast<std::size_t>(partners));
    std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < count; ++i) partners_[f].push_back(found[i].second);
  });
}

/// side × side samples of what a frame sees, at the middles of equal parts of it; none without a camera.
std::vector<DepthAgreement::Sample> DepthAgreement::samples_of(int frame, int side,
                                                               std::vector<float>& depth) const {
  const Camera& camera = cameras_[static_cast<std::size_t>(frame)];
  if (!camera.valid) return {};
  depth.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  read_depth_(frame, depth);
  const Eigen::Isometry3d world_from_cam = camera.cam_from_world.inverse();
  std::vector<Sample> samples(static_cast<std::size_t>(side * side));
  for (int i = 0; i < side * side; ++i) {
    const int x = (2 * (i % side) + 1) * width_ / (2 * side), y = (2 * (i / side) + 1) * height_ / (2 * side);
    const double z =
        depth[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
    if (!(z > 0)) continue;
    samples[static_cast<std::size_t>(i)] = {world_from_cam * (z * camera.ray({x, y})), z};
  }
  return samples;
}

/// How much of what a frame sees another one sees too, each sample weighed by the angle between the views.
double DepthAgreement::overlap(const std::vector<Sample>& seen, int from, int to,
                               const std::vector<Sample>& theirs, int side) const {
  if (theirs.empty()) return 0;
  const Camera& camera = cameras_[static_cast<std::size_t>(to)];
  const Eigen::Vector3d here = cameras_[static_cast<std::size_t>(from)].center(), there = camera.center();
  double sum = 0;
  for (const Sample& sample : seen) {
    if (!(sample.depth > 0)) continue;
    const Eigen::Vector3d in_camera = camera.cam_from_world * sample.point;
    if (!(in_camera.z() > 0)) continue;
    const Eigen::Vector2d pixel = camera.project(in_camera);
    if (!(pixel.x() >= 0 && pixel.x() <= width_ - 1 && pixel.y() >= 0 && pixel.y() <= height_ - 1)) continue;
    const int column = std::min(side - 1, static_cast<int>(pixel.x()) * side / width_),
              row = std::min(side - 1, static_cast<int>(pixel.y()) * side / height_);
    const double known = theirs[static_cast<std::size_t>(row * side + column)].depth;
    if (std::abs(in_camera.z() - known) > kNear * known) continue;
    const Eigen::Vector3d a = (sample.point - here).normalized(), b = (sample.point - there).normalized();
    sum += std::clamp((a - b).norm() / kParallax, kLeastWeight, 1.0);
  }
  return sum;
}

bool DepthAgreement::agrees(const Eigen::Vector3f& point, const Camera& camera,
                            const std::vector<float>& depth) const {
  const Eigen::Vector3d in_camera = camera.cam_from_world * point.cast<double>();
  if (!(in_camera.z() > 0)) return false;
  const Eigen::Vector2d pixel = camera.project(in_camera);
  if (!(pixel.x() >= 0 && pixel.x() <= width_ - 1 && pixel.y() >= 0 && pixel.y() <= height_ - 1))
    return false;
  const int x = std::min(static_cast<int>(pixel.x()), width_ - 2),
            y = std::min(static_cast<int>(pixel.y()), height_ - 2);
  const float* upper =
      &depth[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  const float* lower = upper + width_;
  const double right = pixel.x() - x, down = pixel.y() - y;
  const double between = (1 - down) * ((1 - right) * upper[0] + right * upper[1]) +
                         down * ((1 - right) * lower[0] + right * lower[1]);
  // A map has steps, where what lies between the pixels is on no surface: then one of the four must agree.
  for (const double known :
       {between, double{upper[0]}, double{upper[1]}, double{lower[0]}, double{lower[1]}}) {
    if (std::abs(in_camera.z() - known) <= kDepthTolerance * known) return true;
  }
  return false;
}

std::vector<uint8_t> DepthAgreement::agreeing(int frame, std::span<const Eigen::Vector3f> points,
                                              std::vector<float>& depth) const {
  std::vector<uint8_t> counts(points.size());
  depth.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  for (const int partner : partners(frame)) {
    read_depth_(partner, depth);
    const Camera& camera = cameras_[static_cast<std::size_t>(partner)];
    for (std::size_t i = 0; i < points.size(); ++i)
      counts[i] = static_cast<uint8_t>(std::min(255, counts[i] + (agrees(points[i], camera, depth) ? 1 : 0)));
  }
  return counts;
}

}  // namespace vggt
