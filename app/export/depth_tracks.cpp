#include "app/export/depth_tracks.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "app/scene/depth_agreement.h"
#include "app/scene/pixel_transfer.h"

namespace vggt {
namespace {

constexpr int kFinestStep = 4;  // network pixels of a grid
constexpr int kPartners = 8;    // frames that are asked about each frame's points
constexpr std::size_t kFewestFrames = 3;
constexpr int kEnoughObservations = 3000;  // of a frame: with them COLMAP's bundle adjustment leaves it there
constexpr double kLeastTurn = 0.0044;      // between the rays of a point, in radians: .25 degrees
constexpr double kMostDisagreement = 0.2;  // of tracks beside others, in the network's pixels
constexpr float kTolerance = 0.02F;        // share of an agreeing depth

Eigen::Vector2d original_pixel(const Camera& camera, const Eigen::Vector2d& pixel) {
  return {camera.map.original_x(pixel.x()), camera.map.original_y(pixel.y())};
}

class DepthTracks {
 public:
  explicit DepthTracks(const ExportInput& input) : input_(input) {
    for (const FrameCamera& frame : input.cameras) {
      Camera& camera = cameras_.emplace_back(frame.camera);
      camera.valid = camera.valid && input.depth->has(static_cast<int>(cameras_.size()) - 1);
      if (!camera.valid) continue;
      width_ = camera.width;
      height_ = camera.height;
    }
    const double pixels = static_cast<double>(cameras_.size()) * width_ * height_;
    step_ = std::max(kFinestStep, static_cast<int>(std::ceil(std::sqrt(pixels / kMostTracks))));
  }

  std::vector<Track> run() const {
    const ReadDepth read = [&](int frame, std::span<float> depth) {
      DenseMaps::Buffer buffer;
      std::ranges::copy(input_.depth->values(frame, buffer), depth.begin());
    };
    const DepthAgreement agreement(cameras_, width_, height_, read, kPartners, input_.work);
    std::vector<std::vector<Track>> found(cameras_.size());
    for_each_frame(input_.work, static_cast<int>(found.size()), [&](int frame, int) {
      const auto f = static_cast<std::size_t>(frame);
      if (cameras_[f].valid) found[f] = of_frame(f, agreement.partners(frame));
    });
    std::vector<Track> tracks;
    for (std::vector<Track>& own : found) std::ranges::move(own, std::back_inserter(tracks));
    return tracks;
  }

 private:
  /// A frame's depth and which of its pixels may be used.
  struct Maps {
    Maps(const ExportInput& input, std::size_t frame, int height, int width)
        : view(input.seen[frame]), width_(width), height_(height) {
      depth_ = input.depth->values(static_cast<int>(frame), buffer_);
      if (!input.read_mask) return;
      mask_.resize(depth_.size());
      input.read_mask(frame, mask_);
    }
    /// NaN where the frame does not show the pixel, or its mask is black.
    float depth_at(float x, float y) const {
      if (!(x >= static_cast<float>(view.begin_x) && x <= static_cast<float>(view.end_x - 1) &&
            y >= static_cast<float>(view.begin_y) && y <= static_cast<float>(view.end_y - 1)))
        return NAN;
      const auto nearest = static_cast<std::size_t>(std::lround(y)) * static_cast<std::size_t>(width_) +
                           static_cast<std::size_t>(std::lround(x));
      if (!mask_.empty() && mask_[nearest] == 0) return NAN;
      return interpolated(depth_.data(), height_, width_, x, y);
    }

    FrameView view;

   private:
    int width_, height_;
    DenseMaps::Buffer buffer_;
    std::span<const float> depth_;
    std::vector<uint8_t> mask_;
  };

  struct Candidate {
    Eigen::Vector2d pixel;  // of the network's image
    float depth;
    Eigen::Vector3d sum;  // of where the frames' depths put the point
    std::vector<Observation> observations = {};
  };

  Eigen::Vector3d point(std::size_t frame, const Eigen::Vector2d& pixel, float depth) const {
    const Camera& camera = cameras_[frame];
    return camera.cam_from_world.inverse() * (static_cast<double>(depth) * camera.ray(pixel));
  }

  /// To be observed by so many partners.
  std::vector<Candidate> grid(std::size_t frame, std::size_t partners) const {
    const Maps maps(input_, frame, height_, width_);
    std::vector<Candidate> candidates;
    for (int y = maps.view.begin_y + step_ / 2; y < maps.view.end_y; y += step_) {
      for (int x = maps.view.begin_x + step_ / 2; x < maps.view.end_x; x += step_) {
        const float depth = maps.depth_at(static_cast<float>(x), static_cast<float>(y));
        if (!(depth > 0 && std::isfinite(depth))) continue;
        const Eigen::Vector2d pixel(x, y);
        Candidate& candidate = candidates.emplace_back(pixel, depth, point(frame, pixel, depth));
        candidate.observations.reserve(1 + partners);
        candidate.observations.push_back({static_cast<int>(frame), original_pixel(cameras_[frame], pixel)});
      }
    }
    return candidates;
  }

  void observe(std::size_t frame, std::size_t partner, std::vector<Candidate>& candidates) const {
    const Maps maps(input_, partner, height_, width_);
    const PixelTransfer transfer(cameras_[frame], cameras_[partner]);
    for (Candidate& candidate : candidates) {
      const Eigen::Vector3f seen = transfer(static_cast<float>(candidate.pixel.x()),
                                            static_cast<float>(candidate.pixel.y()), candidate.depth);
      if (!(seen.z() > 0)) continue;
      const Eigen::Vector2f there = seen.head<2>() / seen.z();
      const float depth = maps.depth_at(there.x(), there.y());
      if (!(std::abs(depth - seen.z()) <= kTolerance * depth)) continue;
      const Eigen::Vector2d pixel = there.cast<double>();
      candidate.sum += point(partner, pixel, depth);
      candidate.observations.push_back({static_cast<int>(partner), original_pixel(cameras_[partner], pixel)});
    }
  }

  std::vector<Track> of_frame(std::size_t frame, const std::vector<int>& partners) const {
    std::vector<Candidate> candidates = grid(frame, partners.size());
    for (const int partner : partners) observe(frame, static_cast<std::size_t>(partner), candidates);
    const auto plane = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
    std::vector<uint8_t> rgb(3 * plane);
    input_.read_rgb(frame, rgb);
    std::vector<Track> tracks;
    for (Candidate& candidate : candidates) {
      const std::size_t seen = candidate.observations.size();
      if (seen < kFewestFrames) continue;
      const Eigen::Vector3d point = candidate.sum / static_cast<double>(seen);
      if (!has_parallax(point, candidate.observations)) continue;
      Track& track = tracks.emplace_back();
      track.point_in_world = point;
      const auto at = static_cast<std::size_t>(candidate.pixel.y()) * static_cast<std::size_t>(width_) +
                      static_cast<std::size_t>(candidate.pixel.x());
      track.rgb = {rgb[at], rgb[plane + at], rgb[2 * plane + at]};
      track.observations = std::move(candidate.observations);
      track.observations.shrink_to_fit();
      std::ranges::sort(track.observations, {}, &Observation::frame);
      track.error_px = error_of(track);
    }
    return tracks;
  }

  /// Whether two of a point's rays are far enough apart.
  bool has_parallax(const Eigen::Vector3d& point, const std::vector<Observation>& observations) const {
    std::vector<Eigen::Vector3d> rays;
    for (const Observation& seen : observations) {
      const Camera& camera = cameras_[static_cast<std::size_t>(seen.frame)];
      const Eigen::Vector3d ray = (point - camera.center()).normalized();
      const auto is_apart = [&](const Eigen::Vector3d& other) {
        return ray.cross(other).norm() >= kLeastTurn;
      };
      if (std::ranges::any_of(rays, is_apart)) return true;
      rays.push_back(ray);
    }
    return false;
  }

  double error_of(const Track& track) const {
    double sum = 0;
    for (const Observation& seen : track.observations) {
      const Camera& camera = cameras_[static_cast<std::size_t>(seen.frame)];
      const Eigen::Vector2d shown = camera.project(camera.cam_from_world * track.point_in_world);
      sum += (original_pixel(camera, shown) - seen.pixel).norm();
    }
    return sum / static_cast<double>(track.observations.size());
  }

  const ExportInput& input_;
  std::vector<Camera> cameras_;  // valid where there is a depth map too
  int width_ = 0, height_ = 0, step_ = kFinestStep;
};

/// How far the frames of a track disagree, in pixels of the network's image.
double disagreement(const ExportInput& input, const Track& track) {
  double scales = 0;
  for (const Observation& seen : track.observations)
    scales += input.cameras[static_cast<std::size_t>(seen.frame)].camera.map.scale_x;
  return track.error_px * scales / static_cast<double>(track.observations.size());
}

}  // namespace

int64_t depth_track_bytes(int64_t frames, int64_t pixels) {
  constexpr int64_t kOfTrack = 300, kOfObservation = 64;  // as tracks, and as an export's lists of them
  const int64_t tracks = std::min<int64_t>(kMostTracks, frames * pixels / (kFinestStep * kFinestStep));
  return tracks * (kOfTrack + kOfObservation * std::min<int64_t>(frames, 1 + kPartners));
}

std::vector<Track> depth_tracks(const ExportInput& input) {
  return DepthTracks(input).run();
}

std::vector<Track> tracks_beside(const ExportInput& input) {
  std::vector<int> missing(input.cameras.size(), 0);  // of each frame, observations
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const bool has_depth = input.depth && input.depth->has(static_cast<int>(i));
    if (input.cameras[i].camera.valid && has_depth) missing[i] = kEnoughObservations;
  }
  const bool too_few = std::ranges::count_if(missing, std::identity()) < static_cast<int>(kFewestFrames);
  const auto count = [&](const Track& track) {
    for (const Observation& seen : track.observations) --missing[static_cast<std::size_t>(seen.frame)];
  };
  const auto is_weak = [&](const Observation& seen) {
    return missing[static_cast<std::size_t>(seen.frame)] > 0;
  };
  std::ranges::for_each(input.tracks, count);
  const bool any_weak = std::ranges::any_of(missing, [](int observations) { return observations > 0; });
  if (too_few || !any_weak || !input.read_rgb) return {};
  std::vector<Track> all = depth_tracks(input);
  if (input.tracks.empty()) return all;
  std::erase_if(all, [&](const Track& track) { return !(disagreement(input, track) <= kMostDisagreement); });
  std::ranges::stable_sort(all, {}, [&](const Track& track) { return disagreement(input, track); });
  std::vector<Track> chosen;
  for (Track& track : all) {
    if (std::ranges::none_of(track.observations, is_weak)) continue;
    count(track);
    chosen.push_back(std::move(track));
  }
  return chosen;
}

}  // namespace vggt
