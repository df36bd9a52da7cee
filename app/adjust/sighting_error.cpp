#include "app/adjust/sighting_error.h"

#include <limits>

namespace vggt {
namespace {

/// Calls take(i, anchor, ray, seen) for each sighting.
template <class Take>
void for_sightings(const Bundle& bundle, Take&& take) {
  for (std::size_t i = 0; i < bundle.sightings.size();) {
    const int n = bundle.sightings[i].anchor;
    const AnchorRay ray(bundle, bundle.anchors[static_cast<std::size_t>(n)]);
    for (; i < bundle.sightings.size() && bundle.sightings[i].anchor == n; ++i)
      take(i, static_cast<std::size_t>(n), ray, see(bundle, ray, bundle.sightings[i]));
  }
}

}  // namespace

std::vector<double> depth_information(const Bundle& bundle) {
  std::vector<double> information(bundle.anchors.size(), 0);
  for_sightings(bundle, [&](std::size_t i, std::size_t n, const AnchorRay& ray, const SeenAnchor& seen) {
    if (!seen.in_front) return;
    const SightingSlopes by = slopes_of(seen, bundle.sightings[i], ray, LensSlopes::Zero());
    information[n] += by.depth.squaredNorm() / (1 + seen.error.squaredNorm());
  });
  return information;
}

std::vector<double> sighting_errors(const Bundle& bundle) {
  std::vector<double> errors(bundle.sightings.size());
  for_sightings(bundle, [&](std::size_t i, std::size_t, const AnchorRay&, const SeenAnchor& seen) {
    errors[i] = seen.in_front ? seen.error.norm() : std::numeric_limits<double>::infinity();
  });
  return errors;
}

}  // namespace vggt
