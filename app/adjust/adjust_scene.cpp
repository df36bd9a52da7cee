#include "app/adjust/adjust_scene.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/depth_correction.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr std::size_t kFewToTwice = 64;  // more frames are matched once
constexpr std::size_t kFewestSightings = 30;
constexpr double kOneFocal = 0.2;     // logarithm: focal lengths nearer to the median become the median
constexpr double kDepthOfTwo = 0.15;  // prior of log_depth for two frames, whose matches leave much open

/// Why these cameras cannot be adjusted; empty if they can.
std::string obstacle(const std::vector<Camera>& cameras) {
  if (cameras.size() == 1) return "one frame";
  if (std::ranges::count_if(cameras, &Camera::valid) < 2) return "fewer than two frames have a camera";
  if (cameras.size() > kMostAdjusted) return "more than " + std::to_string(kMostAdjusted) + " frames";
  return {};
}

/// The focal length in pixels of the original image: the mean of both axes' logarithms, for a photograph's
/// pixels are square and the network's two focal lengths differ by up to 4 %.
double original_focal(const Camera& camera) {
  return std::sqrt(camera.k(0, 0) / camera.map.scale_x * camera.k(1, 1) / camera.map.scale_y);
}

/// Gives all cameras square pixels, those whose focal lengths are near the median that one, and those whose
/// original images are known the principal point in its middle.
std::vector<Camera> with_common_intrinsics(std::vector<Camera> cameras) {
  std::vector<double> focals;
  for (const Camera& camera : cameras) {
    if (camera.valid) focals.push_back(original_focal(camera));
  }
  const double middle = median(std::span(focals));
  for (Camera& camera : cameras) {
    if (!camera.valid) continue;
    const double own = original_focal(camera);
    const double focal = std::abs(std::log(own / middle)) < kOneFocal ? middle : own;
    camera.k(0, 0) = focal * camera.map.scale_x;
    camera.k(1, 1) = focal * camera.map.scale_y;
    if (camera.original_width == 0 || camera.original_height == 0) continue;
    camera.k(0, 2) = camera.map.network_x((camera.original_width - 1) / 2.0);
    camera.k(1, 2) = camera.map.network_y((camera.original_height - 1) / 2.0);
  }
  return cameras;
}

/// The first valid camera is not free: it holds the world where it is.
Bundle bundle_of(const std::vector<Camera>& cameras, const std::vector<Anchor>& anchors) {
  Bundle bundle;
  bool first = true;
  for (const Camera& camera : cameras) {
    bundle.cameras.push_back(camera.valid ? camera : Camera());
    bundle.free.push_back(camera.valid && !first);
    first = first && !camera.valid;
  }
  bundle.anchors = anchors;
  return bundle;
}

/// The given cameras with the poses and the focal lengths of the bundle.
std::vector<Camera> adjusted(const Bundle& bundle, std::vector<Camera> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid) continue;
    const Camera& camera = bundle.cameras[i];
    given[i].cam_from_world = camera.cam_from_world;
    given[i].k(0, 0) = camera.k(0, 0) * std::exp(bundle.log_focal);
    given[i].k(1, 1) = camera.k(1, 1) * std::exp(bundle.log_focal);
  }
  return given;
}

/// The pairs of frames that have sightings.
std::vector<std::pair<int, int>> matched_pairs(const Bundle& bundle) {
  std::set<std::pair<int, int>> pairs;
  for (const Sighting& sighting : bundle.sightings) {
    pairs.insert(
        std::minmax(sighting.frame, bundle.anchors[static_cast<std::size_t>(sighting.anchor)].frame));
  }
  return {pairs.begin(), pairs.end()};
}

}  // namespace

AdjustedScene adjust_scene(const MatchInput& input, const std::vector<Camera>& cameras,
                           const Events& events) {
  AdjustedScene result;
  if (const std::string why = obstacle(cameras); !why.empty()) {
    result.summary = "not adjusted: " + why;
    return result;
  }
  const std::vector<Camera> given = with_common_intrinsics(cameras);
  const ImageMatcher matcher(input, given, events);
  std::vector<double> before;
  for (const Anchor& anchor : matcher.anchors()) before.push_back(anchor.log_depth);
  BundlePriors priors;
  if (std::ranges::count_if(cameras, &Camera::valid) == 2) priors.log_depth = kDepthOfTwo;

  const Bundle start = bundle_of(given, matcher.anchors());
  const std::vector<std::pair<int, int>> pairs = matcher.pairs(given, events);
  Bundle bundle = start;
  std::vector<Camera> found = given;
  const int rounds = cameras.size() <= kFewToTwice ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Sighting> sightings = matcher.match(found, pairs, events);
    if (sightings.size() < kFewestSightings) break;
    bundle = start;
    bundle.sightings = std::move(sightings);
    adjust_bundle(bundle, priors, events);
    found = adjusted(bundle, given);
    result.changed = true;
  }
  if (!result.changed) {
    result.summary = "not adjusted: too few matches between frames";
    return result;
  }
  const std::vector<std::pair<int, int>> matched = matched_pairs(bundle);
  result.depth = correct_depth(input, bundle, before, found, matched, events);
  result.cameras = std::move(found);
  result.summary = "adjusted to " + std::to_string(bundle.sightings.size()) + " matches in " +
                   std::to_string(matched.size()) + " pairs of frames";
  return result;
}

}  // namespace vggt
