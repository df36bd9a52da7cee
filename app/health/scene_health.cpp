#include "app/health/scene_health.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "app/health/frame_links.h"
#include "app/health/health_warnings.h"
#include "app/health/trajectory_health.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

ConfidenceHistogram histogram_of(const SmallFrames& small) {
  constexpr std::size_t kBins = 48, kEnough = 200'000;
  constexpr double kTop = 0.99;  // the share that lies below the last bin's end: few pixels are far above
  std::size_t count = 0;
  for (const SmallFrame& frame : small.frames) count += frame.confidence.size();
  std::vector<float> values;
  const std::size_t step = count / kEnough + 1;
  std::size_t next = 0;
  for (const SmallFrame& frame : small.frames) {
    for (; next < frame.confidence.size(); next += step) values.push_back(frame.confidence[next]);
    next -= frame.confidence.size();
  }
  ConfidenceHistogram histogram;
  if (values.empty()) return histogram;
  std::ranges::sort(values);
  histogram.low = values.front();
  histogram.high = values[static_cast<std::size_t>(kTop * static_cast<double>(values.size() - 1))];
  if (!(histogram.high > histogram.low)) histogram.high = histogram.low + 1;
  histogram.counts.resize(kBins);
  for (const float value : values) {
    const double share = (value - histogram.low) / (histogram.high - histogram.low);
    ++histogram.counts[std::min(kBins - 1, static_cast<std::size_t>(share * kBins))];
  }
  return histogram;
}

double mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_agreement(const std::vector<FrameHealth>& frames) {
  std::vector<double> known;
  for (const FrameHealth& frame : frames) {
    if (std::isfinite(frame.agreement)) known.push_back(frame.agreement);
  }
  return known.empty() ? std::numeric_limits<double>::quiet_NaN() : median(std::span(known));
}

/// What the other frames say.
void add_links(const LinkedFrames& linked, const std::vector<Camera>& cameras, SceneHealth& health) {
  for (std::size_t i = 0; i < linked.support.size(); ++i) {
    if (!cameras[i].valid) continue;
    health.frames[i].overlap = linked.support[i].overlap;
    health.frames[i].agreement = linked.support[i].agreement;
    health.frames[i].link = 0;
  }
  if (linked.support.empty()) return;
  for (const FrameLink& link : linked.links) {
    for (const int i : {link.a, link.b}) {
      double& strongest = health.frames[static_cast<std::size_t>(i)].link;
      strongest = std::max(strongest, link.strength);
    }
  }
  const std::vector<int> parts = connected_parts(linked.links, cameras);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    health.frames[i].part = parts[i];
    health.parts = std::max(health.parts, parts[i] + 1);
  }
}

}  // namespace

SceneHealth assess_scene(const HealthInput& input) {
  SceneHealth health;
  health.frames.resize(input.files.size());
  const SmallFrames small = small_frames(input.readers, input.work);
  for (std::size_t i = 0; i < small.frames.size(); ++i) {
    health.frames[i].contrast = small.frames[i].contrast;
    if (!small.frames[i].confidence.empty()) health.frames[i].confidence = mean(small.frames[i].confidence);
  }
  health.confidence = histogram_of(small);
  for (const int i : input.weak_frames) health.frames[static_cast<std::size_t>(i)].few_matches = true;
  std::vector<int> jumps;
  LinkedFrames linked;
  if (input.cameras.size() > 1) {
    linked = link_frames(small, input.cameras, input.tracks, input.work);
    add_links(linked, input.cameras, health);
    health.agreement = median_agreement(health.frames);
    jumps = jumps_of(input.cameras);
    const std::vector<double> steps = steps_of(input.cameras);
    const std::vector<TrackFit> fits = track_fit(input.tracks, input.cameras);
    for (std::size_t i = 0; i < input.cameras.size(); ++i) {
      health.frames[i].step = steps[i];
      health.frames[i].tracks = fits[i].tracks;
      health.frames[i].reprojection_px = fits[i].error_px;
    }
  }
  health.warnings = health_warnings(health, input.files, linked.links, jumps);
  return health;
}

}  // namespace vggt
