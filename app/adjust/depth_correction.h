#pragma once
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/match_input.h"
#include "app/scene/dense_maps.h"
#include "io/files/piece_store.h"
#include "io/scene/camera.h"

namespace vggt {

/// Depth maps, [H,W] a frame, as they are after a bundle adjustment. They lie in the input's space beside the
/// given ones. Values that are not positive numbers stay as they are. lean: with one frame at once in memory;
/// the result is the same.
class CorrectedDepth {
 public:
  /// Bends each map smoothly to what its anchors' depths became, as far as their sightings can be trusted;
  /// `before` holds the logarithms of these depths as they were, `nearer` what those of each frame all change
  /// by first. Where the network's depth is not believed, larger changes are taken too, and what
  /// they leave is spread over less. The input must outlive the object. Throws Stopped.
  CorrectedDepth(const MatchInput& input, const DenseMaps& depth, const Bundle& bundle,
                 const std::vector<double>& before, const std::vector<double>& nearer, bool lean,
                 const Events& events, bool believes_network = true);

  /// Makes the maps of `depth` the bent ones, each averaged with what the frames of its `pairs` say of its
  /// pixels, where both nearly agree. Where it throws, it may be called again. Throws Stopped.
  void write(const std::vector<Camera>& cameras, const std::vector<std::pair<int, int>>& pairs, bool lean,
             const Events& events, DenseMaps& depth) const;

 private:
  const MatchInput& input_;
  PieceStore bent_;
};

}  // namespace vggt
