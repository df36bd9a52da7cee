#include "app/scene/scene_builder.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr std::size_t kMinCandidates = 1 << 20;
constexpr int kBlackBelowSum = 16, kWhiteAbove = 240;

}  // namespace

SceneBuilder::SceneBuilder(const SceneOptions& options, int width, int height, std::vector<FrameView> frames)
    : options_(options),
      width_(width),
      height_(height),
      frames_(std::move(frames)),
      top_confidence_(options.conf_percentile / 100, static_cast<int64_t>(frames_.size()) * width * height),
      prune_at_(kMinCandidates),
      dropped_(kFilters),
      mean_confidence_(frames_.size()) {}

void SceneBuilder::set_cameras(std::vector<Camera> cameras) {
  if (cameras.size() != frames_.size())
    throw std::logic_error("SceneBuilder: as many cameras as frames are needed");
  cameras_ = std::move(cameras);
}

void SceneBuilder::add(const DenseChunk& chunk) {
  if ((chunk.depth == nullptr) == (chunk.points == nullptr) || (chunk.depth && cameras_.empty())) {
    throw std::logic_error("SceneBuilder: a chunk needs either depth (after the cameras) or points");
  }
  const auto pixels = static_cast<std::ptrdiff_t>(width_) * height_;
  for (int i = 0; i < chunk.count; ++i) {
    add_frame(chunk.first + i, chunk.depth ? chunk.depth + i * pixels : nullptr,
              chunk.points ? chunk.points + 3 * i * pixels : nullptr, chunk.confidence + i * pixels);
  }
}

void SceneBuilder::add_frame(int frame, const float* depth, const float* points, const float* confidence) {
  const int64_t pixels = static_cast<int64_t>(width_) * height_;
  const bool usable = cameras_.empty() || cameras_[static_cast<std::size_t>(frame)].valid;
  count_confidence(frame, confidence, usable);
  pixels_ += pixels;
  if (!usable) {
    dropped_[kInvalidFrame] += pixels;
    return;
  }
  const std::vector<double> depths = depth_plane(frame, depth, points);
  const float lowest =
      options_.conf_threshold ? static_cast<float>(*options_.conf_threshold) : top_confidence_.lower_bound();
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const int64_t pixel = static_cast<int64_t>(y) * width_ + x;
      const Filter filter = judge(frame, x, y, depths, confidence[pixel]);
      if (filter != kFilters) {
        ++dropped_[filter];
      } else if (confidence[pixel] >= lowest) {
        const Eigen::Vector3f point =
            points ? Eigen::Vector3f(Eigen::Map<const Eigen::Vector3f>(points + 3 * pixel))
                   : unproject(frame, x, y, depth[pixel]).cast<float>();
        candidates_.push_back({point, confidence[pixel], frame * pixels + pixel});
      }
    }
  }
  if (candidates_.size() >= prune_at_) prune();
}

void SceneBuilder::count_confidence(int frame, const float* confidence, bool for_percentile) {
  double sum = 0;
  int64_t finite = 0;
  const FrameView& view = frames_[static_cast<std::size_t>(frame)];
  for (int y = view.begin_y; y < view.end_y; ++y) {
    for (int x = view.begin_x; x < view.end_x; ++x) {
      const float value = confidence[static_cast<int64_t>(y) * width_ + x];
      if (!std::isfinite(value)) continue;
      if (for_percentile && !options_.conf_threshold) top_confidence_.add(value);
      sum += value;
      ++finite;
    }
  }
  mean_confidence_[static_cast<std::size_t>(frame)] = finite ? sum / static_cast<double>(finite) : 0;
}

std::vector<double> SceneBuilder::depth_plane(int frame, const float* depth, const float* points) const {
  const std::size_t pixels = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  std::vector<double> plane(pixels);
  if (depth) {
    std::copy(depth, depth + pixels, plane.begin());
    return plane;
  }
  const Eigen::RowVector4d axis =
      cameras_.empty() ? Eigen::RowVector4d(0, 0, 1, 0)
                       : cameras_[static_cast<std::size_t>(frame)].cam_from_world.matrix().row(2);
  for (std::size_t i = 0; i < pixels; ++i) {
    const Eigen::Map<const Eigen::Vector3f> point(points + 3 * i);
    plane[i] = axis.head<3>().dot(point.cast<double>()) + axis[3];
  }
  return plane;
}

SceneBuilder::Filter SceneBuilder::judge(int frame, int x, int y, const std::vector<double>& depth,
                                         float confidence) const {
  const FrameView& view = frames_[static_cast<std::size_t>(frame)];
  if (x < view.begin_x || x >= view.end_x || y < view.begin_y || y >= view.end_y) return kPadding;
  const int64_t pixel = static_cast<int64_t>(y) * width_ + x;
  if (!std::isfinite(depth[static_cast<std::size_t>(pixel)]) || !std::isfinite(confidence)) return kNotFinite;
  if ((options_.mask_black || options_.mask_white) && is_masked(frame, pixel)) return kMask;
  if (options_.depth_edge > 0 && is_edge(x, y, depth)) return kDepthEdge;
  return kFilters;
}

bool SceneBuilder::is_masked(int frame, int64_t pixel) const {
  const uint8_t* rgb = frames_[static_cast<std::size_t>(frame)].rgb + pixel;
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(width_) * height_;
  const int r = rgb[0], g = rgb[plane], b = rgb[2 * plane];
  return (options_.mask_black && r + g + b < kBlackBelowSum) ||
         (options_.mask_white && r > kWhiteAbove && g > kWhiteAbove && b > kWhiteAbove);
}

bool SceneBuilder::is_edge(int x, int y, const std::vector<double>& depth) const {
  const auto at = [&](int column, int row) {
    return depth[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                 static_cast<std::size_t>(column)];
  };
  double low = at(x, y), high = low;
  for (int row = std::max(0, y - 1); row <= std::min(height_ - 1, y + 1); ++row) {
    for (int column = std::max(0, x - 1); column <= std::min(width_ - 1, x + 1); ++column) {
      const double neighbor = at(column, row);
      if (!std::isfinite(neighbor)) continue;
      low = std::min(low, neighbor);
      high = std::max(high, neighbor);
    }
  }
  return high - low > options_.depth_edge * std::abs(at(x, y));
}

Eigen::Vector3d SceneBuilder::unproject(int frame, int x, int y, double depth) const {
  const Camera& camera = cameras_[static_cast<std::size_t>(frame)];
  const Eigen::Vector3d in_camera((x - camera.k(0, 2)) / camera.k(0, 0) * depth,
                                  (y - camera.k(1, 2)) / camera.k(1, 1) * depth, depth);
  const Eigen::Matrix3d rotation = camera.cam_from_world.linear();
  const Eigen::Vector3d translation = camera.cam_from_world.translation();
  return rotation.transpose() * (in_camera - translation);
}

double SceneBuilder::depth_of(const Candidate& candidate) const {
  const Eigen::Vector3d point = candidate.point.cast<double>();
  if (cameras_.empty()) return point.z();
  const auto frame = static_cast<std::size_t>(candidate.pixel / (static_cast<int64_t>(width_) * height_));
  const Eigen::RowVector4d axis = cameras_[frame].cam_from_world.matrix().row(2);
  return axis.head<3>().dot(point) + axis[3];
}

void SceneBuilder::prune() {
  if (!options_.conf_threshold) {
    const float lowest = top_confidence_.lower_bound();
    std::erase_if(candidates_, [&](const Candidate& c) { return c.confidence < lowest; });
  }
  prune_at_ = std::max(kMinCandidates, candidates_.size() + candidates_.size() / 4);
}

std::vector<FilterCount> SceneBuilder::filter_counts(std::size_t kept) const {
  static constexpr const char* kNames[kFilters] = {"frames without a camera", "padding", "not finite",
                                                   "background", "depth edges"};
  std::vector<FilterCount> counts;
  int64_t left = pixels_;
  for (int filter = 0; filter < kFilters; ++filter) {
    const int64_t dropped = dropped_[static_cast<std::size_t>(filter)];
    counts.push_back({kNames[filter], left, left - dropped});
    left -= dropped;
  }
  counts.push_back({"confidence", left, static_cast<int64_t>(kept)});
  return counts;
}

BuiltScene SceneBuilder::finish() {
  BuiltScene scene;
  scene.conf_threshold = options_.conf_threshold ? *options_.conf_threshold : top_confidence_.quantile();
  std::erase_if(candidates_, [&](const Candidate& c) { return c.confidence < scene.conf_threshold; });
  // A finite double may become an infinite float, and floats are written.
  std::erase_if(candidates_, [&](const Candidate& c) {
    if (c.point.allFinite()) return false;
    ++dropped_[kNotFinite];
    return true;
  });
  if (!std::ranges::is_sorted(candidates_, {}, &Candidate::pixel))  // the network gives frames in order
    std::ranges::sort(candidates_, {}, &Candidate::pixel);

  const int64_t plane = static_cast<int64_t>(width_) * height_;
  std::vector<double> depths;
  for (const Candidate& candidate : candidates_) {
    const uint8_t* rgb =
        frames_[static_cast<std::size_t>(candidate.pixel / plane)].rgb + candidate.pixel % plane;
    scene.cloud.points.push_back(candidate.point);
    scene.cloud.colors.emplace_back(rgb[0], rgb[plane], rgb[2 * plane]);
    depths.push_back(depth_of(candidate));
  }
  scene.median_depth = depths.empty() ? 0 : median(std::span(depths));
  scene.mean_confidence = mean_confidence_;
  scene.filters = filter_counts(candidates_.size());
  candidates_ = {};
  return scene;
}

}  // namespace vggt
