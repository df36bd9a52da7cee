#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/image_store.h"
#include "app/adjust/match_input.h"
#include "app/adjust/matched_frame.h"
#include "app/events/events.h"
#include "app/scene/dense_maps.h"

namespace vggt {

/// How far frames are searched.
struct MatchPass {
  double coarsest_side = 0, finest_side = 0;  // pixels of the longer side of the images that are compared
  double farthest = 0;          // that a match may lie from where it is predicted, of the longer side
  float least_correlation = 0;  // of the windows
  bool there_and_back = false;  // whether a match must lead back to the anchor
  int every = 1;                // of every how many anchors one is looked for
  bool by_depth = true;  // whether a frame's depth map hides anchors that are nearer or farther than it says
  /// Anchors and frames, sorted; if not null, only these anchors are looked for in these frames, but for weak
  /// frames.
  const std::vector<std::pair<int, int>>* only = nullptr;
};

/// What a pass found.
struct Matches {
  std::vector<Sighting> sightings;  // ordered by anchor
  std::size_t looked_for = 0;       // anchors in frames that should see them
};

/// Whether there are so many frames that each gets fewer anchors and partners.
bool are_many(int64_t frames);

/// In how many frames anchors of so many are looked for at most, in a pass that looks for all of them.
int64_t most_looked_for(int64_t frames);

/// The share of a frame's usual anchors that a gray copy of so many pixels has room for.
double share_of_anchors(int64_t frames, double pixels);

/// Finds pixels of frames in other frames to a fraction of a pixel: the window around an anchor is brought
/// into the other's view by the predicted depth and cameras, and what still differs is found
/// (image_windows.h). Keeps the images in the input's space, 1.4 bytes a pixel of the gray copies, and of all
/// frames a quarter byte a network pixel; what a block of pairs needs is in memory while it is matched.
class ImageMatcher {
 public:
  /// Chooses the anchors, the strongest corner of each cell of a frame that `usable` names. Input and depth,
  /// [H,W] a frame, must outlive the matcher. lean: with one frame, and then one pair, in memory at once; it
  /// finds the same. Throws Stopped.
  ImageMatcher(const MatchInput& input, const DenseMaps& depth, const std::vector<bool>& usable, bool lean,
               const Events& events);

  /// Ordered by frame, with the depth of the maps.
  const std::vector<Anchor>& anchors() const { return anchors_; }

  /// Pairs of frames (smaller number first) that see enough of the same, at most some for each frame, from
  /// much in common to little; for frames that are `weak` all that see any of the same. Throws Stopped.
  std::vector<std::pair<int, int>> pairs(const Bundle& bundle, const std::vector<bool>& weak,
                                         const Events& events) const;

  /// Sightings of the bundle's anchors, which are those of anchors() with depths of their own, in their
  /// partners; none of pairs with too few of them. In pairs with weak frames all anchors are looked for.
  /// Reports the progress of the stage "adjustment" in pairs, throws Stopped.
  Matches match(const Bundle& bundle, const std::vector<std::pair<int, int>>& pairs, const MatchPass& pass,
                const std::vector<bool>& weak, const Events& events) const;

 private:
  /// How a pair of frames lie to each other.
  struct Relation;
  using Loaded = std::map<int, std::unique_ptr<const MatchedFrame>>;

  std::vector<Anchor> find_anchors(const MatchedFrame& frame, int number, const cv::Mat& gray,
                                   const PixelMap& map) const;
  /// Makes `loaded` the frames of these pairs.
  void load(const std::pair<int, int>* begin, const std::pair<int, int>* end, Loaded& loaded) const;
  template <class Frame>
  bool visible(const Bundle& bundle, const Relation& relation, int anchor, const Frame* to) const;
  Matches match_one(const Bundle& bundle, const Loaded& loaded, int from, int to,
                    const MatchPass& pass) const;

  const MatchInput& input_;
  const DenseMaps& depth_;
  std::vector<bool> usable_;
  int64_t usable_count_;
  bool lean_;
  ImageStore images_;
  std::vector<DepthSketch> sketches_;  // of each frame
  std::vector<Anchor> anchors_;        // ordered by frame
  std::vector<int> first_;             // index of each frame's first anchor, and the number of anchors
};

}  // namespace vggt
