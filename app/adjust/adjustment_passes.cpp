#include "app/adjust/adjustment_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "app/adjust/bundle_trials.h"
#include "app/adjust/found_tracks.h"
#include "app/adjust/frame_pose.h"
#include "app/adjust/held_out.h"
#include "app/adjust/image_matcher.h"
#include "app/adjust/overlays.h"
#include "app/adjust/sighting_error.h"
#include "app/adjust/sighting_links.h"
#include "app/scene/median.h"
#include "io/files/text.h"
#include "io/scene/lens_numbers.h"

namespace vggt {
namespace {

constexpr std::size_t kFewestSightings = 30;
constexpr int kFewestLinks = 8;  // sightings that two frames share by more than chance
constexpr double kOutlier = 5;   // standard deviations

/// The passes, from what the network's errors need to what the originals show.
constexpr MatchPass kCoarse{84, 336, 0.12, 0.7F, true, 3}, kFine{336, kMatchingSide, 0.025, 0.75F, false, 1},
    kFinest{kMatchingSide, kMatchingSide, 0.01, 0.8F, false, 1};
constexpr int kMostCoarse = 4;
constexpr BundleSchedule kRoughly{4, 15, 1e-4};  // after a coarse pass, whose matches will be found again
// Of a frame in a fine pass: with twice as many cameras are as exact. A match takes some 200 bytes.
constexpr double kEnoughMatches = 2000, kEnoughMatchesOfMany = 1000;
constexpr double kStillBetter = 0.9;  // of an error or a number of matches: what changes less has settled
constexpr double kFoundShare = 0.4;   // of the anchors that a coarse pass looks for: with it no other follows

/// What the lenses of a bundle are, such as "camera simple-pinhole, focal length 805.3 pixels". cameras:
/// those of its frames.
std::string lens_text(const Bundle& bundle, const std::vector<Camera>& cameras) {
  const auto first = std::ranges::find(cameras, true, &Camera::valid);
  std::string name = lower(std::string(colmap_name(first->model)));
  const auto is_other = [&](const Camera& camera) { return camera.valid && camera.model != first->model; };
  if (std::ranges::any_of(cameras, is_other)) name = "of several models";
  std::ranges::replace(name, '_', '-');
  const auto [least, most] =
      std::ranges::minmax(bundle.lenses, {}, [](const Lens& lens) { return lens.focal.x(); });
  const double focal = least.focal.x();
  if (bundle.lenses.size() > 1)
    return fmt::format("camera {}, {} of them, focal lengths {:.1f} to {:.1f} pixels", name,
                       bundle.lenses.size(), focal, most.focal.x());
  if (!is_one_focal(focal, least.focal.y()))
    return fmt::format("camera {}, focal lengths {:.1f} and {:.1f} pixels", name, focal, least.focal.y());
  return fmt::format("camera {}, focal length {:.1f} pixels", name, focal);
}

/// Drops sightings that are far from where the bundle shows their anchors, and anchors most of whose
/// sightings are.
void drop_outliers(Bundle& bundle) {
  const std::vector<double> errors = sighting_errors(bundle);
  std::vector<int> kept(bundle.anchors.size(), 0);
  for (std::size_t i = 0; i < errors.size(); ++i)
    kept[static_cast<std::size_t>(bundle.sightings[i].anchor)] += errors[i] < kOutlier ? 1 : -1;
  std::vector<Sighting> left;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] < kOutlier && kept[static_cast<std::size_t>(bundle.sightings[i].anchor)] > 0)
      left.push_back(bundle.sightings[i]);
  }
  bundle.sightings = std::move(left);
}

class SceneAdjustment {
 public:
  SceneAdjustment(const MatchInput& input, const DenseMaps& depth, const std::vector<Camera>& cameras,
                  const AdjustOptions& options, bool lean, const Events& events)
      : input_(input),
        depth_(depth),
        cameras_(cameras),
        events_(events),
        options_(options),
        lean_(lean),
        matcher_(input, depth, usable(cameras), lean, events),
        trials_(start_of(input, cameras, options, matcher_), priors_of(cameras, options), options, frames_,
                events),
        last_{{}, {}, 0, std::vector<bool>(cameras.size()), std::vector<bool>(cameras.size()), 1} {}

  Found run() {
    Bundle found = trials_.start();
    const bool guessed = options_.poses == Known::no && take_guessed_focals(input_, cameras_, found);
    bool has_matches = coarse(found);
    if (has_matches && guessed) adjust_given_lenses(found);
    has_matches = has_matches && fine(found) && pass(found, again(kFinest), {1, 15});
    if (!has_matches)
      return not_adjusted("too few matches between frames",
                          cameras_of(trials_.given(), cameras_, trials_.model()));
    trials_.adjust(found, kFully);
    trials_.judge_focals(found);
    const double given = trials_.error_of(bundle_as_given(cameras_), found),
                 adjusted = trials_.error_of(found, found);
    if (!(adjusted <= given)) {
      const Bundle start = trials_.given();
      const bool simple = trials_.error_of(start, found) <= given;
      Found stays = not_adjusted(fmt::format("held-out matches are off by {:.2f} pixels with adjusted "
                                             "cameras, by {:.2f} with the given ones",
                                             adjusted, given),
                                 simple ? cameras_of(start, cameras_, trials_.model()) : cameras_);
      stays.held_out_px = given;
      return stays;
    }
    const std::optional<OtherLens> other_lens = trials_.other_lens(found);
    take_held_out(found);
    Found result = adjusted_scene(
        found, fmt::format("; those held out are off by {:.2f} pixels, before by {:.2f}", adjusted, given));
    result.held_out_px = adjusted;
    result.other_lens = other_lens;
    result.overlays = overlays_;
    return result;
  }

 private:
  static std::vector<bool> usable(const std::vector<Camera>& cameras) {
    std::vector<bool> usable;
    for (const Camera& camera : cameras) usable.push_back(camera.valid);
    return usable;
  }

  static Bundle start_of(const MatchInput& input, const std::vector<Camera>& cameras,
                         const AdjustOptions& options, const ImageMatcher& matcher) {
    Bundle start = bundle_of(input, cameras, options);
    start.anchors = matcher.anchors();
    return start;
  }

  /// Goes back to the given lenses.
  void adjust_given_lenses(Bundle& found) const {
    found.lenses = trials_.start().lenses;
    found.lens_free = trials_.start().lens_free;
    trials_.adjust(found, kRoughly);
  }

  /// Of many frames, which have fewer anchors each, fewer are looked for.
  MatchPass coarse_pass() const {
    MatchPass pass = kCoarse;
    if (are_many_) pass.every = 4;
    return pass;
  }

  /// A pass that looks for no more anchors than it needs, by what the last one found.
  MatchPass enough(MatchPass pass, const Bundle& found) const {
    const double found_of_frame = static_cast<double>(found.sightings.size()) * last_.every / frames_,
                 wanted = are_many_ ? kEnoughMatchesOfMany : kEnoughMatches;
    pass.every = std::max(1, static_cast<int>(std::lround(found_of_frame / wanted)));
    return pass;
  }

  /// A pass that looks again for what the last one found. Where the network's depth is not believed, what was
  /// adjusted without it may be far from it, and is not hidden by it.
  MatchPass again(MatchPass pass) const {
    pass.every = last_.every;
    pass.by_depth = trials_.believes_depth();
    pass.only = &last_.found;
    return pass;
  }

  /// Coarse passes until most anchors are found where they should be seen, or the matches that are held out
  /// no longer come much nearer.
  bool coarse(Bundle& found) {
    double before = std::numeric_limits<double>::infinity();
    std::size_t matches = 0;
    for (int i = 0; i < kMostCoarse; ++i) {
      if (!pass(found, coarse_pass(), kRoughly)) return i > 0;
      const double error = trials_.error_of(found, found);
      const bool settled =
          error > kStillBetter * before &&
          static_cast<double>(found.sightings.size()) * kStillBetter < static_cast<double>(matches);
      before = error;
      matches = found.sightings.size();
      if (settled || last_.found_share > kFoundShare) break;
    }
    return true;
  }

  /// A fine pass, and another one where it shows that the lens is distorted: in the first, matches were
  /// looked for where a lens without distortion shows them, so that those of the corners are missing.
  bool fine(Bundle& found) {
    MatchPass how = enough(kFine, found);
    if (!pass(found, how, {}, [&] { trials_.free_what_pays(found); })) return false;
    const bool is_clear = trials_.has_freed_k1();
    if (!is_clear && !trials_.suspects_lens()) return true;
    Bundle before = found;
    const BundleTrials::Decisions decisions = trials_.decisions();
    const PassState state = last_;
    const double error = trials_.error_of(found, found);
    if (!is_clear) trials_.take_suspected_lens(found);
    how.by_depth = trials_.believes_depth();
    // Where depth hides nothing about twice as many matches are found, which many frames do not need.
    if (!how.by_depth && are_many_) how.every *= 2;
    bool stays = is_clear;
    const auto judge = [&] {
      constexpr double kNoWorse = 1.1;  // of other matches
      stays = stays || (trials_.error_of(found, found) < kNoWorse * error &&
                        trials_.k1_pays(found, before, decisions));
      if (stays) trials_.free_k2_if_it_pays(found);
    };
    try {
      if (pass(found, how, {}, judge) && stays) return true;
    } catch (const TooManyEquations&) {  // of more matches than there were; those are still there
    }
    found = std::move(before);
    trials_.go_back_to(decisions);
    last_ = state;
    return true;
  }

  /// The pairs of frames that a pass compares. One that looks again for what the last one found compares the
  /// same ones: as the cameras moved, others would be chosen from many frames. Weak frames, of which it looks
  /// for everything, get new ones, too.
  std::vector<std::pair<int, int>> pairs(const Bundle& found, const MatchPass& how) const {
    if (how.only && std::ranges::count(last_.weak, true) == 0) return last_.pairs;
    std::vector<std::pair<int, int>> chosen = matcher_.pairs(found, last_.weak, events_);
    if (!how.only) return chosen;
    std::erase_if(chosen, [&](const std::pair<int, int>& pair) {
      return !last_.weak[static_cast<std::size_t>(pair.first)] &&
             !last_.weak[static_cast<std::size_t>(pair.second)];
    });
    std::vector<std::pair<int, int>> all;
    std::ranges::set_union(chosen, last_.pairs, std::back_inserter(all));
    return all;
  }

  /// Matches once from the cameras found so far and adjusts to that; then `free` may free more than was free
  /// before. False where there are too few matches.
  bool pass(Bundle& found, const MatchPass& how, const BundleSchedule& schedule,
            const std::function<void()>& free = {}) {
    last_.every = how.every;
    // How many passes there will be, nobody knows; within each the progress grows.
    Events numbered = events_;
    numbered.on_progress = [this, number = ++passes_](const std::string& stage, const std::string& unit,
                                                      int64_t done, int64_t total) {
      events_.progress(stage + ", pass " + std::to_string(number), unit, done, total);
    };
    last_.pairs = pairs(found, how);
    Matches matches = matcher_.match(found, last_.pairs, how, last_.weak, numbered);
    std::vector<Sighting>& sightings = matches.sightings;
    overlays_ = std::max(overlays_, drop_overlays(found.anchors, sightings));
    last_.found.clear();
    for (const Sighting& sighting : sightings) last_.found.emplace_back(sighting.anchor, sighting.frame);
    std::ranges::sort(last_.found);
    last_.found_share = static_cast<double>(sightings.size()) / static_cast<double>(matches.looked_for + 1);
    std::vector<Sighting> held_out = hold_out(sightings);
    if (sightings.size() < kFewestSightings || held_out.empty()) return false;
    trials_.hold_out(std::move(held_out));
    found.sightings = std::move(sightings);
    trials_.adjust(found, schedule);
    if (!how.only) find_poses_anew(found, schedule);
    if (free) free();
    const std::vector<std::size_t> before = sightings_of_frames(found);
    drop_outliers(found);
    find_weak_frames(before, sightings_of_frames(found));
    if (found.sightings.size() < kFewestSightings) return false;
    trials_.adjust(found, {1, 5});
    return true;
  }

  /// Most of the sightings of a frame whose pose is far off are wrong, and the adjustment stays where some
  /// agree by chance. Such frames get a pose with which clearly more agree, if there is one.
  void find_poses_anew(Bundle& found, const BundleSchedule& schedule) {
    if (options_.poses == Known::exactly || frames_ < 3) return;
    const std::vector<double> errors = sighting_errors(found);
    std::vector<int> balance(cameras_.size(), 0);  // of each frame, sightings in it that fit less others
    for (std::size_t i = 0; i < errors.size(); ++i)
      balance[static_cast<std::size_t>(found.sightings[i].frame)] += errors[i] < kOutlier ? 1 : -1;
    bool changed = false;
    for (std::size_t i = 0; i < balance.size(); ++i) {
      events_.check_stop();
      if (found.free[i] && balance[i] < 0) changed |= find_pose_anew(found, static_cast<int>(i));
    }
    if (changed) trials_.adjust(found, schedule);
  }

  /// Once they have judged the cameras, the matches that were held out make them more exact: all but outliers
  /// are adjusted to once more.
  void take_held_out(Bundle& found) const {
    std::vector<Sighting> before = std::exchange(found.sightings, {});
    found.sightings.reserve(before.size() + trials_.held_out().size());
    std::ranges::merge(before, trials_.held_out(), std::back_inserter(found.sightings), {}, &Sighting::anchor,
                       &Sighting::anchor);
    drop_outliers(found);
    try {
      trials_.solve(found, {1, 5});
    } catch (const TooManyEquations&) {  // with the matches that were held out
      found.sightings = std::move(before);
    }
  }

  Found adjusted_scene(const Bundle& found, const std::string& held_out) {
    AdjustedScene result;
    result.changed = true;
    result.cameras = cameras_of(found, cameras_, trials_.model());
    const PairSightings links = sightings_of_pairs(found);
    std::vector<std::pair<int, int>> matched = matched_pairs(links);
    std::vector<double> before;
    for (const Anchor& anchor : trials_.start().anchors) before.push_back(anchor.log_depth);
    std::vector<double> nearer;
    for (std::size_t i = 0; i < cameras_.size(); ++i) nearer.push_back(trials_.log_nearer(i));
    if (options_.poses != Known::exactly) find_groups(links, result);
    result.guesses_focal = trials_.holds_focal(found.lens_free);
    result.tracks = found_tracks(input_, found);
    auto corrected = std::make_unique<const CorrectedDepth>(input_, depth_, found, before, nearer, lean_,
                                                            events_, trials_.believes_depth());
    for (std::size_t i = 0; i < last_.doubtful.size(); ++i) {
      if (last_.doubtful[i]) result.weak_frames.push_back(static_cast<int>(i));
    }
    result.summary = "adjusted to " + std::to_string(found.sightings.size()) + " matches in " +
                     std::to_string(matched.size()) + " pairs of frames, " +
                     lens_text(found, result.cameras) + held_out;
    result.pairs = std::move(matched);
    return {std::move(result), found.sightings.size(), std::move(corrected)};
  }

  /// By chance two places that look alike have some matches; a handful, where other pairs of frames have
  /// many, holds none of them where it is.
  void find_groups(const PairSightings& links, AdjustedScene& result) const {
    constexpr int kHandful = 30, kOfUsual = 5;
    result.groups = groups_of(cameras_.size(), matched_pairs(links, kFewestLinks));
    const int handful = std::min(kHandful, usual_sightings(links) / kOfUsual);
    if (!result.groups.empty() || handful <= kFewestLinks) return;
    std::vector<std::vector<int>> groups = groups_of(cameras_.size(), matched_pairs(links, handful));
    constexpr int kMoreInside = 10;
    const bool are_apart = std::ranges::any_of(
        sightings_of_groups(links, groups),
        [](const GroupSightings& group) { return group.inside > kMoreInside * group.across; });
    if (!are_apart) return;
    result.groups = std::move(groups);
    result.groups_are_linked = true;
  }

  /// Frames that hang on few sightings, or most of whose sightings were far off: a wrong pose that the others
  /// do not feel. They are matched more thoroughly in the next pass. Not all of them are doubtful: a
  /// photograph at the edge of a scene has fewer sightings than the others, and enough.
  void find_weak_frames(const std::vector<std::size_t>& before, const std::vector<std::size_t>& kept) {
    constexpr std::size_t kFew = 4;       // times fewer than the median
    constexpr std::size_t kEnough = 100;  // for a camera, where most of them fit
    std::vector<double> counts;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (cameras_[i].valid) counts.push_back(static_cast<double>(kept[i]));
    }
    // A frame without any has few, even where most have none.
    const double few = std::max(1.0, median(std::span(counts)) / kFew);
    const bool is_known = options_.poses == Known::exactly;  // few matches make no pose doubtful that is
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const bool are_few = static_cast<double>(kept[i]) < few, most_were_off = 2 * kept[i] < before[i];
      last_.weak[i] = cameras_[i].valid && (are_few || most_were_off);
      last_.doubtful[i] = cameras_[i].valid && ((are_few && kept[i] < kEnough && !is_known) || most_were_off);
    }
  }

  const MatchInput& input_;
  const DenseMaps& depth_;
  const std::vector<Camera>& cameras_;
  const Events& events_;
  const AdjustOptions options_;
  const bool lean_;
  const ImageMatcher matcher_;
  const double frames_ = static_cast<double>(std::ranges::count_if(cameras_, &Camera::valid));
  const bool are_many_ = are_many(static_cast<int64_t>(frames_));
  BundleTrials trials_;
  struct PassState {
    std::vector<std::pair<int, int>> pairs;  // of frames that the last pass compared
    std::vector<std::pair<int, int>> found;  // anchors and frames that it found, in order
    double found_share;                      // of what it looked for
    std::vector<bool> weak, doubtful;        // of each frame
    int every;                               // of every how many anchors it looked for one
  };
  PassState last_;
  int passes_ = 0;
  double overlays_ = 0;  // the largest share of a pass that drop_overlays() dropped
};

}  // namespace

Found not_adjusted(const std::string& why, std::vector<Camera> cameras) {
  Found found;
  found.scene.cameras = std::move(cameras);
  found.scene.summary = "not adjusted: " + why;
  return found;
}

Found adjust_in_passes(const MatchInput& input, const DenseMaps& depth, const std::vector<Camera>& cameras,
                       const AdjustOptions& options, bool lean, const Events& events) {
  return SceneAdjustment(input, depth, cameras, options, lean, events).run();
}

}  // namespace vggt
