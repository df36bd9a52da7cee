#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/bundle_trials.h"
#include "app/adjust/depth_correction.h"

namespace vggt {

/// An adjusted scene whose depth is not yet written.
struct Found {
  AdjustedScene scene;
  std::size_t matches = 0;
  std::unique_ptr<const CorrectedDepth> depth = {};  // null: it stays as it is
  /// The median distance of held-out matches from epipolar lines, before they were adjusted to, in pixels of
  /// the original; 0: none are.
  double held_out_px = 0;
  std::optional<OtherLens> other_lens = {};  // that the matches show instead of one that is known exactly
  double overlays = 0;  // the largest share of a pass's sightings that drop_overlays() dropped
};

/// A scene that stays as it is, and why.
Found not_adjusted(const std::string& why, std::vector<Camera> cameras);

/// Matches and adjusts in passes (adjust_scene.h), from these cameras on. lean: with one pair of frames at
/// once in memory; the result is the same. Throws TooManyEquations, std::bad_alloc, Stopped.
Found adjust_in_passes(const MatchInput& input, const DenseMaps& depth, const std::vector<Camera>& cameras,
                       const AdjustOptions& options, bool lean, const Events& events);

}  // namespace vggt
