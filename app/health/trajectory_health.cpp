#include "app/health/trajectory_health.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kJump = 8;         // times the usual step
constexpr double kBack = 0.35;      // of a jump's length: the neighbours are nearer to each other than that
constexpr double kSteady = 0.5;     // of the distance between any two cameras: the usual step is less
constexpr std::size_t kFewest = 6;  // cameras that tell what is usual

std::vector<int> valid_frames(const std::vector<Camera>& cameras) {
  std::vector<int> frames;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (cameras[i].valid) frames.push_back(static_cast<int>(i));
  }
  return frames;
}

double distance(const std::vector<Camera>& cameras, int a, int b) {
  return (cameras[static_cast<std::size_t>(a)].center() - cameras[static_cast<std::size_t>(b)].center())
      .norm();
}

double usual_step(const std::vector<Camera>& cameras, const std::vector<int>& frames) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < frames.size(); ++i)
    steps.push_back(distance(cameras, frames[i - 1], frames[i]));
  return steps.empty() ? 0 : median(std::span(steps));
}

/// The median distance between cameras that are far from each other in the sequence.
double usual_distance(const std::vector<Camera>& cameras, const std::vector<int>& frames) {
  std::vector<double> distances;
  const std::size_t half = frames.size() / 2;
  for (std::size_t i = 0; i + half < frames.size(); ++i)
    distances.push_back(distance(cameras, frames[i], frames[i + half]));
  return median(std::span(distances));
}

}  // namespace

std::vector<double> steps_of(const std::vector<Camera>& cameras) {
  std::vector<double> steps(cameras.size(), kNaN);
  const std::vector<int> frames = valid_frames(cameras);
  const double usual = usual_step(cameras, frames);
  if (!(usual > 0)) return steps;
  for (std::size_t i = 1; i < frames.size(); ++i)
    steps[static_cast<std::size_t>(frames[i])] = distance(cameras, frames[i - 1], frames[i]) / usual;
  return steps;
}

std::vector<int> jumps_of(const std::vector<Camera>& cameras) {
  const std::vector<int> frames = valid_frames(cameras);
  std::vector<int> jumps;
  if (frames.size() < kFewest) return jumps;
  const double usual = usual_step(cameras, frames);
  if (!(usual > 0) || usual > kSteady * usual_distance(cameras, frames)) return jumps;
  for (std::size_t i = 1; i + 1 < frames.size(); ++i) {
    const double there = distance(cameras, frames[i - 1], frames[i]),
                 back = distance(cameras, frames[i], frames[i + 1]),
                 between = distance(cameras, frames[i - 1], frames[i + 1]);
    const double jump = std::min(there, back);
    if (jump > kJump * usual && between < kBack * jump) jumps.push_back(frames[i]);
  }
  return jumps;
}

std::vector<TrackFit> track_fit(const std::vector<Track>& tracks, const std::vector<Camera>& cameras) {
  std::vector<TrackFit> fits(cameras.size());
  for (const Track& track : tracks) {
    for (const Observation& seen : track.observations) {
      const auto frame = static_cast<std::size_t>(seen.frame);
      if (frame >= cameras.size()) continue;
      const Camera& camera = cameras[frame];
      const Eigen::Vector2d at = camera.project(camera.cam_from_world * track.point_in_world);
      const Eigen::Vector2d original(camera.map.original_x(at.x()), camera.map.original_y(at.y()));
      ++fits[frame].tracks;
      fits[frame].error_px += (original - seen.pixel).norm();
    }
  }
  for (TrackFit& fit : fits) fit.error_px = fit.tracks ? fit.error_px / fit.tracks : kNaN;
  return fits;
}

}  // namespace vggt
