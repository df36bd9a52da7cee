#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/scene/scene_builder.h"

namespace vggt {

/// Frames as they are matched: their images, and what the network says of them.
struct MatchInput {
  int width = 0, height = 0;
  std::vector<FrameView> frames;
  std::vector<const float*> depth;  // of each frame [H,W]
  int threads = 0;                  // 0: one per core
};

/// Finds pixels of frames in other frames to a fraction of a pixel: each partner's image is brought into the
/// frame's view by the predicted depth and cameras, and what still differs is found by the method of Lucas
/// and Kanade, there and back.
class ImageMatcher {
 public:
  /// Chooses the anchors, the strongest corner of each cell of a frame. The input must outlive the matcher.
  explicit ImageMatcher(const MatchInput& input);
  ~ImageMatcher();

  const std::vector<Anchor>& anchors() const { return anchors_; }

  /// Pairs of frames (smaller number first) that see enough of the same, at most some for each frame, from
  /// much in common to little. Frames whose view is not valid are in none.
  std::vector<std::pair<int, int>> pairs(const std::vector<View>& views) const;

  /// Sightings of the anchors in their partners, in order; none of pairs with too few of them. Throws
  /// Stopped.
  std::vector<Sighting> match(const std::vector<View>& views, const std::vector<std::pair<int, int>>& pairs,
                              const std::function<void(int done, int total)>& progress = {}) const;

 private:
  struct Images;
  std::vector<Sighting> match_one(const std::vector<View>& views, int from, int to) const;
  std::vector<int> visible(const std::vector<View>& views, int from, int to) const;

  const MatchInput& input_;
  std::unique_ptr<Images> images_;
  std::vector<Anchor> anchors_;  // ordered by frame
  std::vector<int> first_;       // anchor of each frame
};

}  // namespace vggt
