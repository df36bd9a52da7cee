#pragma once
#include <vector>

#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// Takes a tenth of the sightings out, always the same ones of an anchor and a frame.
std::vector<Sighting> hold_out(std::vector<Sighting>& sightings);

/// The distance of each sighting and its anchor from each other's epipolar lines, the mean of both, in
/// pixels; of frames that are in one place, from where the other one's ray shows. Only poses and lenses of
/// `cameras` count, and the anchors' pixels.
std::vector<double> epipolar_errors(const Bundle& cameras, const std::vector<Anchor>& anchors,
                                    const std::vector<Sighting>& sightings);

/// Whether clearly more of the errors fall than rise: by two deviations of a coin's.
bool mostly_smaller(const std::vector<double>& errors, const std::vector<double>& before);

/// Which share of the cost of held-out matches is left, and by how many standard errors it fell.
struct CostChange {
  double share, standard_errors;
};

/// By their distances from epipolar lines, in the same order; the cost is Cauchy's function, whose scale is
/// the median before. {1, 0} where nothing can be said: fewer than two, or no error before.
CostChange cost_change(const std::vector<double>& errors, const std::vector<double>& before);

}  // namespace vggt
