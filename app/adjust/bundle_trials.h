#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/bundle_setup.h"
#include "app/adjust/held_out.h"
#include "app/events/events.h"
#include "io/scene/camera.h"

namespace vggt {

/// After the last matches: where the camera hardly moves, focal length and distortion change the cost little,
/// so that a looser limit would end too early.
constexpr BundleSchedule kFully{1, 30, 1e-6};

/// A lens that was given as exact, the one that the matches show in its place, and in what they differ.
struct OtherLens {
  Lens given, shown;
  bool focal, k1;   // in one or both focal lengths; in k1
  bool of_several;  // there are other lenses
};

/// Adjusts the bundle of a scene, and frees of it what pays: what explains matches that are held out better.
class BundleTrials {
 public:
  /// frames: the number of those whose cameras are valid.
  BundleTrials(Bundle start, const BundlePriors& priors, const AdjustOptions& options, double frames,
               const Events& events);

  /// The bundle as it was given, but for focal lengths that took the given ones' place.
  const Bundle& start() const { return start_; }
  /// A copy with those, too.
  Bundle given() const;
  /// Of all lenses; nothing: each camera has its own.
  std::optional<CameraModel> model() const { return model_; }
  /// Whether depths are held near the network's.
  bool believes_depth() const;

  /// Of a frame whose focal length took the given one's place: the logarithm of how much nearer all is than
  /// with the given one; 0 of others.
  double log_nearer(std::size_t frame) const;

  /// From now on the matches that are held out are these.
  void hold_out(std::vector<Sighting> sightings) { held_out_ = std::move(sightings); }
  const std::vector<Sighting>& held_out() const { return held_out_; }
  /// Of the matches that are held out, with these cameras and the anchors found: the median distance from
  /// epipolar lines, in pixels.
  double error_of(const Bundle& cameras, const Bundle& found) const;

  /// Adjusts to the matches. Where a focal length leaves what the network can have missed by, the matches may
  /// not tell it, as of a camera that hardly moves or sees but a plane: unless the matches that are held out
  /// clearly say otherwise, it stays as it was given, in later passes too: freed again, it leaves once more,
  /// for another wrong value. Throws TooManyEquations, Stopped.
  void adjust(Bundle& found, const BundleSchedule& schedule) const;

  /// The same, whatever becomes of the focal lengths.
  void solve(Bundle& found, BundleSchedule schedule) const;

  /// Drops the prior of the network's depth, and where the options leave the lenses to the matches frees
  /// k1 or aspect, each if it pays. Where a focal length is doubted, looks for another one that takes the
  /// given one's place. Throws as adjust().
  void free_what_pays(Bundle& found);

  /// Whether free_what_pays() has freed k1.
  bool has_freed_k1() const { return !options_.model && model_ == CameraModel::simple_radial; }
  /// Where it has, frees k2 as well, if that pays beside it. Throws as adjust().
  void free_k2_if_it_pays(Bundle& found);

  /// Whether free_what_pays() tried a k1 that brings the held-out matches nearer, but not clearly: of matches
  /// that were looked for without it those that show it most are missing. Or the matches tell a large one.
  bool suspects_lens() const { return suspected_ && model_ == model_of(options_); }
  void take_suspected_lens(Bundle& found);

  /// What the trials have decided so far.
  struct Decisions {
    BundlePriors priors;
    std::optional<CameraModel> model;
    std::vector<Sighting> held_out;
  };
  /// Whether the distortion explains the held-out matches, which were looked for with it, clearly better than
  /// the bundle before, which has none, and than none would from here on, with the prior of depth that there
  /// is and with the one before; or as well, where the matches tell it. Throws as adjust().
  bool k1_pays(Bundle& found, const Bundle& before, const Decisions& decided_before);
  Decisions decisions() const { return {priors_, model_, held_out_}; }
  void go_back_to(Decisions decisions);

  /// Of three and more frames, after the last matches, where the options leave the lenses to these: frees a
  /// focal length that adjust() holds if they tell it clearly now, and gives a lens whose focal length they
  /// do not tell the one that was given. Throws as adjust().
  void judge_focals(Bundle& found);
  /// Where intrinsics of three and more frames are known exactly, whether the matches say that they are
  /// others: with focal lengths and k1 free the matches that are held out come nearer, and one of these is
  /// told and far from the given one. Of the first such lens of at most 64. Nothing where memory runs out.
  /// `found` is as before, but where this throws Stopped.
  std::optional<OtherLens> other_lens(Bundle& found) const;
  /// Whether the focal length of a lens that the options leave free is held.
  bool holds_focal(const std::vector<LensFreedom>& lens_free) const;

 private:
  /// What an adjustment changes of a bundle, whose matches are many.
  struct Adjusted {
    std::vector<Eigen::Isometry3d> poses;
    std::vector<Lens> lenses;
    std::vector<LensFreedom> lens_free;
    std::vector<Anchor> anchors;
  };
  static Adjusted adjusted_of(const Bundle& bundle);
  static void put(const Adjusted& adjusted, Bundle& bundle);

  /// A lens that was tried, and the prior of depth that it was tried with.
  struct Suspected {
    Adjusted adjusted;
    double log_depth = 0;
  };

  void try_free_depth(Bundle& found);
  void try_lenses(Bundle& found);
  /// Whether k1 shows corners far away, and the sightings tell it, at a cost that is hardly greater.
  bool is_told_k1(Bundle& found, const CostChange& change) const;
  std::optional<OtherLens> told_lens(Bundle& found, bool clearly_nearer) const;
  /// The best of several focal lengths, the best with the given one, and the share of the cost that is left.
  struct TriedFocals {
    Adjusted best, given;
    double share = std::numeric_limits<double>::infinity();
  };
  bool finds_another_focal(Bundle& found);
  TriedFocals try_focals(Bundle& found, const Adjusted& before, const std::vector<double>& errors);
  void free_focals(Bundle& found, bool focal);
  bool is_another_focal(Bundle& found, const Adjusted& other) const;
  void try_held_focals(Bundle& found);
  std::vector<std::size_t> untold_focals(Bundle& found) const;
  /// Of the first kMostAsked lenses.
  std::vector<LensDeviations> deviations_of(Bundle& found) const;
  std::size_t bytes_beside(const Bundle& found) const;
  std::vector<double> errors_of(const Bundle& found) const;
  double focal_moved(const std::vector<Lens>& lenses, std::size_t lens) const;
  double farthest_focal(const std::vector<Lens>& lenses) const;
  bool doubts_focal(const Adjusted& adjusted) const;

  Bundle start_;
  const std::vector<Lens> network_;  // as they were given
  BundlePriors priors_;
  const AdjustOptions options_;
  const double frames_;
  const Events& events_;
  std::optional<CameraModel> model_;
  std::vector<Sighting> held_out_;
  std::optional<Suspected> suspected_;
};

}  // namespace vggt
