#pragma once
#include <opencv2/core.hpp>
#include <span>
#include <utility>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/image_windows.h"
#include "app/adjust/match_input.h"
#include "app/events/events.h"

namespace vggt {

/// How far frames are searched.
struct MatchPass {
  double coarsest_side = 0, finest_side = 0;  // pixels of the longer side of the images that are compared
  double farthest = 0;          // that a match may lie from where it is predicted, of the longer side
  float least_correlation = 0;  // of the windows
  bool there_and_back = false;  // whether a match must lead back to the anchor
  int every = 1;                // of every how many anchors one is looked for
};

/// Finds pixels of frames in other frames to a fraction of a pixel: the window around an anchor is brought
/// into the other's view by the predicted depth and cameras, and what still differs is found
/// (image_windows.h). Holds the images in memory: 1.4 bytes a pixel of the gray copies.
class ImageMatcher {
 public:
  /// Chooses the anchors, the strongest corner of each cell of a frame that `usable` names. The input must
  /// outlive the matcher. Throws Stopped.
  ImageMatcher(const MatchInput& input, const std::vector<bool>& usable, const Events& events);

  /// Ordered by frame, with the depth of the maps.
  const std::vector<Anchor>& anchors() const { return anchors_; }

  /// Pairs of frames (smaller number first) that see enough of the same, at most some for each frame, from
  /// much in common to little. Throws Stopped.
  std::vector<std::pair<int, int>> pairs(const Bundle& bundle, const Events& events) const;

  /// Sightings of the bundle's anchors, which are those of anchors() with depths of their own, in their
  /// partners, ordered by anchor; none of pairs with too few of them. Reports the progress of the stage
  /// "adjustment" in pairs, throws Stopped.
  std::vector<Sighting> match(const Bundle& bundle, const std::vector<std::pair<int, int>>& pairs,
                              const MatchPass& pass, const Events& events) const;

 private:
  /// How a pair of frames lie to each other.
  struct Relation;
  struct Plane {
    float inverse_depth = 0;
    Eigen::Vector2f slope = Eigen::Vector2f::Zero();  // of the inverse depth, by pixels of the original
  };

  std::vector<Anchor> find_anchors(int frame, const cv::Mat& gray, const PixelMap& map) const;
  Plane plane_at(const Anchor& anchor, double radius) const;
  float depth_at(int frame, const Eigen::Vector2d& pixel) const;
  bool shows(int frame, const Eigen::Vector2d& pixel, double margin) const;
  bool used(int frame, const Eigen::Vector2d& pixel) const;
  bool visible(const Bundle& bundle, const Relation& relation, int anchor) const;
  std::vector<Sighting> match_one(const Bundle& bundle, int from, int to, const MatchPass& pass) const;

  const MatchInput& input_;
  std::vector<bool> usable_;
  std::vector<cv::Mat> masks_;                   // of each frame, of the network's size; empty: all is used
  std::vector<std::vector<ImageLevel>> images_;  // of each frame
  std::vector<Anchor> anchors_;                  // ordered by frame
  std::vector<int> first_;  // index of each frame's first anchor, and the number of anchors
};

}  // namespace vggt
