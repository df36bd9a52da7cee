#include "app/adjust/adjust_scene.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core/utility.hpp>
#include <set>
#include <span>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/depth_correction.h"
#include "app/scene/median.h"
#include "app/cli/stop.h"

namespace vggt {
namespace {

constexpr std::size_t kFewToTwice = 64;  // more frames are matched once
constexpr std::size_t kFewestSightings = 30;
constexpr double kOneFocal = 0.2;     // logarithm: focal lengths nearer to the median are it
constexpr double kDepthOfTwo = 0.15;  // log_depth's prior where two frames leave much open

/// Both focal lengths of most cameras, the medians of the valid ones, for all that are near them.
std::vector<View> with_common_focal(std::vector<View> views) {
  std::vector<double> across, down;
  for (const View& view : views) {
    if (!view.valid) continue;
    across.push_back(view.k(0, 0));
    down.push_back(view.k(1, 1));
  }
  const Eigen::Vector2d middle(median(std::span(across)), median(std::span(down)));
  for (View& view : views) {
    auto focal = view.k.diagonal().head<2>();
    const Eigen::Array2d apart = (focal.array() / middle.array()).log().abs();
    if (view.valid && apart.maxCoeff() < kOneFocal) focal = middle;
  }
  return views;
}

Bundle bundle_of(const std::vector<View>& views, const std::vector<Anchor>& anchors) {
  Bundle bundle;
  bool first = true;
  for (const View& view : views) {
    BundleCamera camera;
    camera.free = view.valid && !first;
    if (view.valid) {
      first = false;
      camera.rotation = view.cam_from_world.topLeftCorner<3, 3>();
      camera.translation = view.cam_from_world.topRightCorner<3, 1>();
      camera.focal = view.k.diagonal().head<2>();
    }
    bundle.cameras.push_back(camera);
  }
  bundle.anchors = anchors;
  return bundle;
}

std::vector<View> views_of(const Bundle& bundle, std::vector<View> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!views[i].valid) continue;
    const BundleCamera& camera = bundle.cameras[i];
    views[i].cam_from_world.topLeftCorner<3, 3>() = camera.rotation;
    views[i].cam_from_world.topRightCorner<3, 1>() = camera.translation;
    views[i].k(0, 0) = camera.focal.x() * std::exp(bundle.log_focal);
    views[i].k(1, 1) = camera.focal.y() * std::exp(bundle.log_focal);
  }
  return views;
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

AdjustedScene adjust_scene(const MatchInput& input, const std::vector<View>& views,
                           const std::function<void(int done, int total)>& progress) {
  AdjustedScene result;
  const auto valid = std::ranges::count_if(views, &View::valid);
  if (valid < 2 || views.size() > kMostAdjusted) {
    result.summary = valid < 2 ? "not adjusted: one frame"
                               : "not adjusted: more than " + std::to_string(kMostAdjusted) + " frames";
    return result;
  }
  const std::vector<View> given = with_common_focal(views);
  if (input.threads > 0) cv::setNumThreads(input.threads);
  const ImageMatcher matcher(input);
  std::vector<double> before;
  for (const Anchor& anchor : matcher.anchors()) before.push_back(anchor.log_depth);
  BundlePriors priors;
  if (valid == 2) priors.log_depth = kDepthOfTwo;

  const Bundle start = bundle_of(given, matcher.anchors());
  const std::vector<std::pair<int, int>> pairs = matcher.pairs(given);
  Bundle bundle = start;
  result.views = given;
  const int rounds = views.size() <= kFewToTwice ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Sighting> sightings = matcher.match(result.views, pairs, progress);
    if (sightings.size() < kFewestSightings) break;
    check_stop();
    bundle = start;
    bundle.sightings = std::move(sightings);
    adjust_bundle(bundle, priors);
    result.views = views_of(bundle, given);
    result.changed = true;
  }
  if (!result.changed) {
    result.summary = "not adjusted: too few matches between frames";
    return result;
  }
  check_stop();
  const std::vector<std::pair<int, int>> matched = matched_pairs(bundle);
  result.depth = correct_depth(input, bundle, before, result.views, matched);
  result.summary = "adjusted to " + std::to_string(bundle.sightings.size()) + " matches in " +
                   std::to_string(matched.size()) + " pairs of frames";
  return result;
}

}  // namespace vggt
