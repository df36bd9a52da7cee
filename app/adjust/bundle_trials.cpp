#include "app/adjust/bundle_trials.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <utility>

#include "app/adjust/held_out.h"
#include "app/adjust/sighting_error.h"
#include "app/adjust/trial_rules.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

// A lens that may be another one: below which share of the median error, or by how many standard errors of
// the cost.
constexpr double kMuchNearer = 0.8, kLikely = 2;
// A k1 that the matches tell although those held out come no nearer, as depths and poses make up for it: by
// so many of its standard deviations, with a corner moved by such a share of its distance from the middle,
// and at most such a share of the cost. Of 50 scenes without distortion k1 is up to 8 deviations and .0035
// off, and more only where the cost rises by 4 % and more; of lenses with k1 = -.12 and .06 that do not pay
// it is 19 to 60 deviations and .01 to .03 off.
constexpr double kToldK1 = 12, kFarMove = 0.0075, kNoWorse = 1.005;

// Below which share the error of held-out matches has to fall for the prior of the network's depth to be
// dropped.
constexpr double kDepthPays = 0.97;
// A lens that is known exactly, and is another one all the same: how far a focal length or the aspect moves
// at least, logarithms, and by how many deviations. Of right ones they move by .014 and .007 at most, in
// scenes of three and four frames by .04 and 2.5 deviations.
constexpr double kOtherFocal = 0.02, kToldFocal = 5;
}  // namespace

double moved_corner(const Lens& lens) {
  const Eigen::Vector2d corner = lens.centre / lens.focal.x();
  return (shown_at(lens, corner) - 2 * lens.centre).norm();
}

double most_moved_corner(const Bundle& bundle) {
  double most = 0;
  for (const Lens& lens : bundle.lenses) most = std::max(most, moved_corner(lens));
  return most;
}

bool pays(const CostChange& cost, double share) {
  return cost.share < share && cost.standard_errors > kClearly;
}

BundleTrials::BundleTrials(Bundle start, const BundlePriors& priors, const AdjustOptions& options,
                           double frames, const Events& events)
    : start_(std::move(start)),
      network_(start_.lenses),
      priors_(priors),
      options_(options),
      frames_(frames),
      events_(events),
      model_(model_of(options)) {}

bool BundleTrials::believes_depth() const {
  return priors_.log_depth < kFreeDepth;
}

Bundle BundleTrials::given() const {
  Bundle given = start_;
  given.lenses = network_;
  return given;
}

BundleTrials::Adjusted BundleTrials::adjusted_of(const Bundle& bundle) {
  return {bundle.poses, bundle.lenses, bundle.lens_free, bundle.anchors};
}

void BundleTrials::put(const Adjusted& adjusted, Bundle& bundle) {
  bundle.poses = adjusted.poses;
  bundle.lenses = adjusted.lenses;
  bundle.lens_free = adjusted.lens_free;
  bundle.anchors = adjusted.anchors;
}

std::vector<double> BundleTrials::errors_of(const Bundle& found) const {
  return epipolar_errors(found, found.anchors, held_out_);
}

double BundleTrials::error_of(const Bundle& cameras, const Bundle& found) const {
  std::vector<double> errors = epipolar_errors(cameras, found.anchors, held_out_);
  return median(std::span(errors));
}

void BundleTrials::free_what_pays(Bundle& found) {
  const auto free_lenses = [&] {
    if (lenses_are_open(options_)) try_lenses(found);
  };
  try_free_depth(found);
  const bool is_doubted = doubts_focal(adjusted_of(found));
  free_lenses();
  if ((is_doubted || doubts_focal(adjusted_of(found))) && finds_another_focal(found) &&
      model_ != kRadial.model)
    free_lenses();
}

/// Drops the prior of the network's depth, if without it the matches that are held out are explained
/// better, and clearly more of them come nearer than go farther. The errors of that depth are alike in a
/// whole frame, so that where the frames hardly move those of many anchors would outweigh what the matches
/// say of the focal length. Two frames cannot tell.
void BundleTrials::try_free_depth(Bundle& found) {
  if (frames_ < 3 || options_.poses == Known::exactly) return;
  const std::vector<double> errors = errors_of(found);
  const double before = error_of(found, found), prior = priors_.log_depth;
  const Adjusted given = adjusted_of(found);
  const auto most_are_nearer = [&] { return mostly_smaller(errors_of(found), errors); };
  priors_.log_depth = kFreeDepth;
  adjust(found, {1, 3, 1e-6});
  if (most_are_nearer()) {
    adjust(found, {1, 15, 1e-6});
    if (error_of(found, found) < kDepthPays * before && most_are_nearer()) return;
  }
  priors_.log_depth = prior;
  put(given, found);
}

/// Frees k1 or the aspect of all lenses, whichever explains the held-out matches better, if it pays and
/// moves a corner of an image by a pixel or more. Each trial begins with the given focal length, beside the
/// poses and depths found: without k1 a distorted lens can pull the focal length far off. The prior of the
/// network's depth can hold it there, so that k1 pays little. So k1 is tried without that prior, too, where
/// the focal length is doubted or k1 moves a corner; if it is not doubted, k1 has to pay beside a trial
/// that drops the prior alone. Where k1 is free with the prior, the prior is doubted once more. Two frames
/// cannot tell, nor can few matches.
void BundleTrials::try_lenses(Bundle& found) {
  suspected_.reset();
  if (frames_ < 3 || held_out_.size() < kFewestHeldOut) return;
  const std::vector<double> plain = errors_of(found);
  const Adjusted without = adjusted_of(found);
  Adjusted chosen = without;
  const double prior = priors_.log_depth;
  const double plain_error = error_of(found, found);
  double chosen_prior = prior, least_share = kLensPays, least_error = plain_error;
  const auto adjust_from_given = [&](const std::vector<LensFreedom>& lens_free,
                                     const BundleSchedule& schedule) {
    put(without, found);
    found.lenses = start_.lenses;
    found.lens_free = lens_free;
    adjust(found, schedule);
  };
  const auto adjust_with = [&](bool LensFreedom::*part, double log_depth) {
    priors_.log_depth = log_depth;
    std::vector<LensFreedom> freed = start_.lens_free;  // where adjust() held a focal length it is free
    for (LensFreedom& free : freed) {
      if (part) free.*part = true;
    }
    adjust_from_given(freed, kTrial);
    if (part && holds_focal(found.lens_free)) {
      std::vector<LensFreedom> held = freed;
      for (LensFreedom& free : held) free.focal = false;
      adjust_from_given(held, kHeldTrial);
      found.lens_free = freed;
      adjust(found, kTrial);
    }
    return errors_of(found);
  };
  const auto attempt = [&](const LensTrial& trial, double log_depth, const std::vector<double>& beside) {
    const std::vector<double> errors = adjust_with(trial.free, log_depth);
    const CostChange change = cost_change(errors, plain), alone = cost_change(errors, beside);
    const bool moves = most_moved_corner(found) >= kLeastMove;
    if (pays(change, least_share) && pays(alone, kLensPays) && moves) {
      least_share = change.share;
      chosen = adjusted_of(found);
      chosen_prior = log_depth;
      model_ = trial.model;
    }
    const double error = error_of(found, found);
    const bool is_likely =
        (change.share < kLensPays && change.standard_errors > kLikely) || error < kMuchNearer * plain_error;
    if (trial.model == kRadial.model && moves &&
        ((is_likely && error < least_error) || (!suspected_ && is_told_k1(found, change)))) {
      least_error = std::min(error, least_error);
      suspected_ = {adjusted_of(found), log_depth};
    }
    return moves;
  };
  const bool k1_moves = attempt(kRadial, prior, plain), is_doubted = doubts_focal(without);
  attempt(kAspect, prior, plain);
  if ((k1_moves || is_doubted) && prior < kFreeDepth)
    attempt(kRadial, kFreeDepth, is_doubted ? plain : adjust_with(nullptr, kFreeDepth));
  priors_.log_depth = chosen_prior;
  put(chosen, found);
  if (model_ == kRadial.model && believes_depth()) try_free_depth(found);
}

void BundleTrials::free_k2_if_it_pays(Bundle& found) {
  if (!has_freed_k1() || frames_ < 3 || held_out_.size() < kFewestHeldOut) return;
  adjust(found, kTrial);  // what more steps bring is not k2's
  const std::vector<double> errors = errors_of(found);
  const Adjusted without = adjusted_of(found);
  for (LensFreedom& free : found.lens_free) free.k2 = free.k1;
  adjust(found, kTrial);
  double moved = 0;  // pixels of a corner
  for (std::size_t i = 0; i < found.lenses.size(); ++i) {
    const Eigen::Vector2d corner = seen_at(without.lenses[i], Eigen::Vector2d::Zero());
    moved = std::max(moved, shown_at(found.lenses[i], corner).norm());
  }
  if (pays(cost_change(errors_of(found), errors), kLensPays) && moved >= kLeastMove) {
    model_ = CameraModel::radial;
  } else {
    put(without, found);
  }
}

void BundleTrials::take_suspected_lens(Bundle& found) {
  put(suspected_->adjusted, found);
  priors_.log_depth = suspected_->log_depth;
  suspected_.reset();
  model_ = kRadial.model;
}

bool BundleTrials::is_told_k1(Bundle& found, const CostChange& change) const {
  if (change.share > kNoWorse || found.lenses.size() > kMostAsked) return false;
  const auto moves_far = [](const Lens& lens) { return moved_corner(lens) > kFarMove * lens.centre.norm(); };
  if (std::ranges::none_of(found.lenses, moves_far)) return false;
  const std::vector<LensDeviations> deviations = deviations_of(found);
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (moves_far(found.lenses[i]) && std::abs(found.lenses[i].distortion[0]) > kToldK1 * deviations[i].k1)
      return true;
  }
  return false;
}

bool BundleTrials::k1_pays(Bundle& found, const Bundle& before, const Decisions& decided_before) {
  const std::vector<double> errors = errors_of(found);
  const Adjusted bent = adjusted_of(found);
  const double prior = priors_.log_depth;
  if (held_out_.size() < kFewestHeldOut) return false;
  const CostChange from_before = cost_change(errors, epipolar_errors(before, found.anchors, held_out_));
  bool clearly = pays(from_before, kLensPays), told = is_told_k1(found, from_before);
  for (const double log_depth : std::set{prior, decided_before.priors.log_depth}) {
    if (!clearly && !told) break;
    for (std::size_t i = 0; i < found.lenses.size(); ++i) {
      found.lenses[i].distortion.setZero();
      found.lens_free[i] = start_.lens_free[i];
    }
    priors_.log_depth = log_depth;
    adjust(found, kTrial);
    const CostChange from_none = cost_change(errors, errors_of(found));
    clearly = clearly && pays(from_none, kLensPays);
    told = told && from_none.share <= kNoWorse;
    put(bent, found);
  }
  priors_.log_depth = prior;
  return clearly || told;
}

void BundleTrials::go_back_to(Decisions decisions) {
  priors_ = decisions.priors;
  model_ = decisions.model;
  held_out_ = std::move(decisions.held_out);
}

std::optional<OtherLens> BundleTrials::other_lens(Bundle& found) const {
  if (options_.intrinsics != Known::exactly || frames_ < 3 || held_out_.size() < kFewestHeldOut ||
      found.lenses.size() > kMostAsked)
    return std::nullopt;
  const Adjusted given = adjusted_of(found);
  const std::vector<double> errors = errors_of(found);
  for (LensFreedom& free : found.lens_free) free.focal = free.aspect = free.k1 = true;
  std::optional<OtherLens> other;
  try {
    BundleSchedule schedule = kHeldTrial;
    schedule.most_bytes = bytes_beside(found);
    BundlePriors priors = priors_;
    priors.log_focal = BundlePriors().log_focal;
    priors.log_aspect = BundlePriors().log_aspect;
    priors.k1 = BundlePriors().k1;
    adjust_bundle(found, start_, priors, schedule, events_);
    const CostChange change = cost_change(errors_of(found), errors);
    if (change.share < 1 && change.standard_errors > kLikely)
      other = told_lens(found, pays(change, kStillBetter));
  } catch (const std::bad_alloc&) {  // what is adjusted stays without the trial
  }
  put(given, found);
  return other;
}

/// The first lens that is clearly another than the given one, and told by the matches. clearly_nearer: those
/// held out come so with these lenses.
std::optional<OtherLens> BundleTrials::told_lens(Bundle& found, bool clearly_nearer) const {
  const std::vector<LensDeviations> deviations = deviations_of(found);
  for (std::size_t i = 0; i < found.lenses.size(); ++i) {
    const Lens &given = start_.lenses[i], &shown = found.lenses[i];
    const Eigen::Array2d moved = (shown.focal.array() / given.focal.array()).log();
    const double farthest = std::max(moved.abs().maxCoeff(), std::abs(moved.x() - moved.y())),
                 bent = std::abs(shown.distortion[0] - given.distortion[0]),
                 corner = shown.centre.cwiseQuotient(shown.focal).squaredNorm();
    const bool is_told =
        farthest > kToldFocal * deviations[i].focal || (clearly_nearer && deviations[i].focal < kTold);
    const OtherLens other{given, shown, is_told && farthest > kOtherFocal,
                          bent > kToldK1 * deviations[i].k1 && bent * corner > kFarMove,
                          found.lenses.size() > 1};
    if (other.focal || other.k1) return other;
  }
  return std::nullopt;
}

std::vector<LensDeviations> BundleTrials::deviations_of(Bundle& found) const {
  return lens_deviations(found, kMostAsked, bytes_beside(found), events_);
}

/// What the options leave beside the matches.
std::size_t BundleTrials::bytes_beside(const Bundle& found) const {
  // With those that are held out, and what a pass knows of the one before.
  constexpr std::size_t kSightingCopies = 2, kAnchorCopies = 8;
  const std::size_t held = kSightingCopies * found.sightings.size() * sizeof(Sighting) +
                           kAnchorCopies * found.anchors.size() * sizeof(Anchor);
  return options_.most_bytes - std::min(options_.most_bytes, held);
}

/// Within bytes_beside(). Throws TooManyEquations.
void BundleTrials::solve(Bundle& found, BundleSchedule schedule) const {
  schedule.most_bytes = bytes_beside(found);
  adjust_bundle(found, start_, priors_, schedule, events_);
}

}  // namespace vggt
