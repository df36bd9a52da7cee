#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/events/events.h"
#include "app/scene/scene_builder.h"

namespace vggt {

/// Frames as they are matched: their images, and the depth that the network gives them.
struct MatchInput {
  int width = 0, height = 0;
  std::vector<FrameView> frames;
  std::vector<const float*> depth;  // of each frame [H,W]
  ReadRgb read_rgb;
};

/// Finds pixels of frames in other frames to a fraction of a pixel: each partner's image is brought into the
/// frame's view by the predicted depth and cameras, and what still differs is found by the method of Lucas
/// and Kanade, there and back.
class ImageMatcher {
 public:
  /// Chooses the anchors, the strongest corner of each cell of a frame whose camera is valid; principal
  /// points are those of `cameras`. The input must outlive the matcher. Throws Stopped.
  ImageMatcher(const MatchInput& input, const std::vector<Camera>& cameras, const Events& events);
  ~ImageMatcher();

  const std::vector<Anchor>& anchors() const { return anchors_; }

  /// Pairs of frames (smaller number first) that see enough of the same, at most some for each frame, from
  /// much in common to little. Frames whose camera is not valid are in none. Throws Stopped.
  std::vector<std::pair<int, int>> pairs(const std::vector<Camera>& cameras, const Events& events) const;

  /// Sightings of the anchors in their partners, ordered by anchor; none of pairs with too few of them.
  /// `cameras` have the principal points that the constructor was given. Reports the progress of the stage
  /// "adjustment" in pairs, throws Stopped.
  std::vector<Sighting> match(const std::vector<Camera>& cameras,
                              const std::vector<std::pair<int, int>>& pairs, const Events& events) const;

 private:
  struct Images;
  void add_anchors(int frame, const Camera& camera);
  std::vector<Sighting> match_one(const std::vector<Camera>& cameras, int from, int to) const;
  std::vector<int> visible(const std::vector<Camera>& cameras, int from, int to) const;

  const MatchInput& input_;
  std::unique_ptr<Images> images_;
  std::vector<Anchor> anchors_;  // ordered by frame
  std::vector<int> first_;       // index of each frame's first anchor, and the number of anchors
};

}  // namespace vggt
