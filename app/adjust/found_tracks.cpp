#include "app/adjust/found_tracks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "app/adjust/sighting_error.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr std::size_t kFewestFrames = 3;
constexpr double kMostError = 0.25, kMostMedians = 2.5;

/// The colour of a frame's pixel, which the network's image shows.
std::array<uint8_t, 3> color_at(const MatchInput& input, std::size_t frame, const std::vector<uint8_t>& rgb,
                                const Eigen::Vector2d& pixel) {
  const PixelMap& map = input.frames[frame].map;
  const auto column = std::clamp<long>(std::lround(map.network_x(pixel.x())), 0, input.width - 1),
             row = std::clamp<long>(std::lround(map.network_y(pixel.y())), 0, input.height - 1);
  const auto width = static_cast<std::size_t>(input.width),
             plane = width * static_cast<std::size_t>(input.height);
  const std::size_t at = static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column);
  return {rgb[at], rgb[plane + at], rgb[2 * plane + at]};
}

/// The distance of each sighting from where the bundle shows its anchor, in pixels of the original; infinite
/// where that is behind the camera.
std::vector<double> distances(const Bundle& bundle) {
  std::vector<double> errors;
  for (const Sighting& sighting : bundle.sightings) {
    const AnchorRay ray(bundle, bundle.anchors[static_cast<std::size_t>(sighting.anchor)]);
    const SeenAnchor seen = see(bundle, ray, sighting);
    errors.push_back(seen.in_front ? (shown_at(*seen.lens, seen.normal) - sighting.pixel).norm()
                                   : std::numeric_limits<double>::infinity());
  }
  return errors;
}

/// The greatest distance of an observation of each frame.
std::vector<double> most_distances(const MatchInput& input, const Bundle& bundle,
                                   const std::vector<double>& errors) {
  std::vector<double> sizes, compared;
  for (const MatchFrame& frame : input.frames) sizes.push_back(compared_pixel(frame));
  for (std::size_t i = 0; i < errors.size(); ++i)
    compared.push_back(errors[i] / sizes[static_cast<std::size_t>(bundle.sightings[i].frame)]);
  const double most = std::max(kMostError, kMostMedians * median(std::span(compared)));
  for (double& size : sizes) size *= most;
  return sizes;
}

}  // namespace

std::vector<Track> found_tracks(const MatchInput& input, const Bundle& bundle) {
  const std::vector<double> errors = distances(bundle), most = most_distances(input, bundle, errors);
  std::vector<Track> tracks;
  std::vector<uint8_t> rgb(3 * static_cast<std::size_t>(input.width) *
                           static_cast<std::size_t>(input.height));
  int rgb_frame = -1;
  for (std::size_t i = 0; i < bundle.sightings.size();) {
    const int n = bundle.sightings[i].anchor;
    const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(n)];
    const AnchorRay ray(bundle, anchor);
    Track track;
    track.observations.push_back({anchor.frame, anchor.pixel});
    for (; i < bundle.sightings.size() && bundle.sightings[i].anchor == n; ++i) {
      const Sighting& sighting = bundle.sightings[i];
      if (!(errors[i] < most[static_cast<std::size_t>(sighting.frame)])) continue;
      track.observations.push_back({sighting.frame, sighting.pixel});
      track.error_px += errors[i];
    }
    if (track.observations.size() < kFewestFrames) continue;
    track.error_px /= static_cast<double>(track.observations.size());
    track.point_in_world = bundle.poses[static_cast<std::size_t>(anchor.frame)].inverse() * ray.in_anchor;
    std::ranges::sort(track.observations, {}, &Observation::frame);
    if (anchor.frame != rgb_frame) input.read_rgb(static_cast<std::size_t>(rgb_frame = anchor.frame), rgb);
    track.rgb = color_at(input, static_cast<std::size_t>(anchor.frame), rgb, anchor.pixel);
    tracks.push_back(std::move(track));
  }
  return tracks;
}

}  // namespace vggt
