#include "app/adjust/bundle_trials.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "app/adjust/held_out.h"
#include "app/adjust/sighting_error.h"
#include "app/scene/median.h"

namespace vggt {
namespace {

// Of a lens: a longer focal length stands in for most of a distortion, and gives way slowly.
// While the focal length is held matches may be far off at first.
constexpr BundleSchedule kTrial{2, 30, 1e-4}, kHeldTrial{4, 30, 1e-4};
constexpr double kStillBetter = 0.9;  // of an error that clearly falls
// Logarithms: how far a focal length may move from the network's before the prior of depth is doubted, how
// far at all, and how far where the matches clearly say so.
constexpr double kDoubtfulFocal = 0.15, kFarFocal = 0.7, kMostFocal = 1.4;
constexpr double kFarthestFound = 1.25;          // likewise, of one that is looked for
constexpr std::size_t kEnoughToSearch = 20'000;  // matches
constexpr double kLeastMove = 1;                 // pixels of the original, of a corner
// Standard deviations of a logarithm: of what the matches tell, those of a pass that is not the last too; and
// how many of them off the network's they tell in any case.
constexpr double kTold = 0.05, kNearlyTold = 0.1, kSurely = 5;
constexpr std::size_t kMostAsked = 64;  // lenses, each of which takes a solution of the equations

/// What `auto` frees of a lens, if the cost of held-out matches clearly falls with it and below kLensPays of
/// what it was. On 96 rendered scenes (8 small frames), whose lenses have square pixels and no distortion, it
/// never falls so far by more than 3.8 standard errors; of videos through a distorted lens it falls to
/// between .945 and .987, by 4.1 to 16.
struct LensTrial {
  CameraModel model;
  bool LensFreedom::*free;
};
constexpr LensTrial kRadial{CameraModel::simple_radial, &LensFreedom::k1},
    kAspect{CameraModel::pinhole, &LensFreedom::aspect};
constexpr double kLensPays = 0.99, kClearly = 4;  // standard errors
// A lens that may be another one: below which share of the median error, or by how many standard errors of
// the cost.
constexpr double kMuchNearer = 0.8, kLikely = 2;
constexpr std::size_t kFewestHeldOut = 20;  // of which these mean something
// A k1 that the matches tell although those held out come no nearer, as depths and poses make up for it: by
// so many of its standard deviations, with a corner moved by such a share of its distance from the middle,
// and at most such a share of the cost. Of 50 scenes without distortion k1 is up to 8 deviations and .0035
// off, and more only where the cost rises by 4 % and more; of lenses with k1 = -.12 and .06 that do not pay
// it is 19 to 60 deviations and .01 to .03 off.
constexpr double kToldK1 = 12, kFarMove = 0.0075, kNoWorse = 1.005;

// Below which share the error of held-out matches has to fall for the prior of the network's depth to be
// dropped, and that prior from then on.
constexpr double kDepthPays = 0.97, kFreeDepth = 10;

/// How far a lens shows a corner from where a lens of square pixels without distortion does, in pixels.
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

/// All sightings of evenly chosen anchors, about so many. Sightings are in the order of their anchors.
std::vector<Sighting> some_tracks(const std::vector<Sighting>& sightings, std::size_t wanted) {
  const std::size_t step = sightings.size() / wanted + 1;
  std::vector<Sighting> some;
  std::size_t anchors = 0;
  for (std::size_t i = 0; i < sightings.size(); ++i) {
    anchors += i > 0 && sightings[i].anchor != sightings[i - 1].anchor ? 1 : 0;
    if (anchors % step == 0) some.push_back(sightings[i]);
  }
  return some;
}

}  // namespace

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
  const std::vector<double> deviations = k1_deviations(found, kMostAsked, bytes_beside(found), events_);
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (moves_far(found.lenses[i]) && std::abs(found.lenses[i].distortion[0]) > kToldK1 * deviations[i])
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

/// Looks for a focal length that explains the held-out matches clearly better, from several that are far from
/// each other: where the network's is wrong by much, as of a plane seen from above, the adjustment ends near
/// where it began. What is found takes the given one's place. If matches do not tell it, or it runs off, and
/// they are explained clearly better by the given one than by what there is, that one is held.
bool BundleTrials::finds_another_focal(Bundle& found) {
  if (frames_ < 3 || held_out_.size() < kFewestHeldOut || options_.intrinsics != Known::no ||
      options_.poses != Known::no)
    return false;
  const Adjusted before = adjusted_of(found);
  const std::optional<CameraModel> model = model_;
  const std::vector<Lens> given = start_.lenses;
  const std::vector<double> errors = errors_of(found);
  const double prior = std::exchange(priors_.log_depth, kFreeDepth);
  const auto change = [&] { return cost_change(errors_of(found), errors); };
  const auto stays = [&] {
    model_ = model;
    priors_.log_depth = prior;
    put(before, found);
    return false;
  };
  const TriedFocals tried = try_focals(found, before, errors);
  if (tried.share >= 1) return stays();
  const auto take_focals_of = [&](const std::vector<Lens>& lenses) {
    for (std::size_t i = 0; i < given.size(); ++i) start_.lenses[i].focal = lenses[i].focal;
  };
  put(tried.best, found);
  take_focals_of(tried.best.lenses);
  free_focals(found, true);
  const bool found_pays = pays(change(), kLensPays);
  if (found_pays && is_another_focal(found, before)) {
    take_focals_of(found.lenses);
    return true;
  }
  start_.lenses = given;
  const bool runs_off = farthest_focal(found.lenses) > kFarthestFound,
             is_untold = found_pays && (runs_off || untold_focals(found).size() == given.size());
  if (is_untold) {
    put(tried.given, found);
    free_focals(found, false);
    if (pays(change(), kLensPays)) {
      suspected_.reset();  // its focal length is free
      return false;
    }
  }
  return stays();
}

/// Each of several focal lengths is held while poses and depths follow, and k1 where the options leave the
/// lenses to the matches. Depths are scaled: what moves by so many pixels is as much nearer as the focal
/// length is shorter. Beside the poses found the network's are tried, from which wrong lenses have not led.
BundleTrials::TriedFocals BundleTrials::try_focals(Bundle& found, const Adjusted& before,
                                                   const std::vector<double>& errors) {
  constexpr std::array kFactors = {1.0, 0.3, 0.4, 0.55, 0.75, 1.35, 1.8};
  const Adjusted network = adjusted_of(start_);
  const std::size_t room = bytes_beside(found);
  // A few matches of a scene tell its focal length from those far off.
  const std::vector<Sighting> all =
      std::exchange(found.sightings, some_tracks(found.sightings, kEnoughToSearch));
  constexpr double kWorse = 1.05;  // of a cost: where no more iterations can tell
  TriedFocals tried;
  double least = std::numeric_limits<double>::infinity();
  for (const double factor : kFactors) {
    for (const Adjusted* from : {&before, &network}) {
      put(*from, found);
      for (std::size_t i = 0; i < start_.lenses.size(); ++i) {
        found.lenses[i] = start_.lenses[i];
        found.lenses[i].focal *= factor;
        found.lens_free[i] = start_.lens_free[i];
        found.lens_free[i].focal = false;
        found.lens_free[i].k1 |= !options_.model;
      }
      for (Anchor& anchor : found.anchors) {
        const auto lens = static_cast<std::size_t>(found.lens_of[static_cast<std::size_t>(anchor.frame)]);
        anchor.log_depth += std::log(found.lenses[lens].focal.x() / from->lenses[lens].focal.x());
      }
      BundleSchedule schedule = from == &before ? kTrial : kHeldTrial;
      schedule.most_bytes = room;
      schedule.hopeless = kWorse * least;
      least = std::min(least, adjust_bundle(found, start_, priors_, schedule, events_));
      const CostChange cost = cost_change(errors_of(found), errors);
      if (cost.share >= tried.share) continue;
      tried.share = cost.share;
      tried.best = adjusted_of(found);
      if (factor == 1) tried.given = tried.best;
    }
  }
  found.sightings = all;
  return tried;
}

/// Goes on from a focal length that was tried, with all matches; focal: whether it is free. Keeps k1 where
/// the options leave the lenses to the matches and it pays.
void BundleTrials::free_focals(Bundle& found, bool focal) {
  for (std::size_t i = 0; i < found.lens_free.size(); ++i)
    found.lens_free[i].focal = focal && start_.lens_free[i].focal;
  const auto go_on = [&] {
    solve(found, kTrial);
    if (focal) solve(found, kFully);
  };
  go_on();
  model_ = model_of(options_);
  if (options_.model) return;
  const Adjusted bent = adjusted_of(found);
  const std::vector<double> errors = errors_of(found);
  const bool moves = most_moved_corner(found) >= kLeastMove;
  for (std::size_t i = 0; i < found.lenses.size(); ++i) {
    found.lenses[i].distortion.setZero();
    found.lens_free[i].k1 = false;
  }
  go_on();
  if (!moves || !pays(cost_change(errors, errors_of(found)), kLensPays)) return;
  put(bent, found);
  model_ = kRadial.model;
}

/// Whether the focal lengths of all lenses are told, not too far from the network's, and some far from
/// another solution's, or one of them is distorted.
bool BundleTrials::is_another_focal(Bundle& found, const Adjusted& other) const {
  bool is_far = !options_.model && model_ == kRadial.model;
  for (std::size_t i = 0; i < found.lenses.size(); ++i) {
    const double focal = found.lenses[i].focal.x();
    is_far |= std::abs(std::log(focal / other.lenses[i].focal.x())) > kDoubtfulFocal;
    if (std::abs(std::log(focal / network_[i].focal.x())) > kFarthestFound) return false;
  }
  if (!is_far || found.lenses.size() > kMostAsked) return false;
  return std::ranges::all_of(focal_deviations(found, kMostAsked, bytes_beside(found), events_),
                             [](double deviation) { return deviation < kNearlyTold; });  // NaN is none
}

double BundleTrials::log_nearer(std::size_t frame) const {
  const auto lens = static_cast<std::size_t>(start_.lens_of[frame]);
  return std::log(start_.lenses[lens].focal.x() / network_[lens].focal.x());
}

void BundleTrials::adjust(Bundle& found, const BundleSchedule& schedule) const {
  Adjusted held = adjusted_of(found);
  solve(found, schedule);
  const double farthest = farthest_focal(found.lenses);
  for (std::size_t i = 0; i < held.lenses.size(); ++i) {
    if (focal_moved(found.lenses, i) < kFarFocal) continue;
    held.lenses[i] = start_.lenses[i];
    held.lens_free[i].focal = false;
  }
  if (farthest < kFarFocal) return;
  const double error = error_of(found, found);
  const Adjusted freed = adjusted_of(found);
  put(held, found);
  solve(found, BundleSchedule());
  if (farthest < kMostFocal && error < kStillBetter * error_of(found, found)) put(freed, found);
}

void BundleTrials::judge_focals(Bundle& found) {
  if (frames_ < 3 || options_.intrinsics != Known::no) return;
  if (holds_focal(found.lens_free)) try_held_focals(found);
  const std::vector<std::size_t> untold = untold_focals(found);
  if (untold.empty()) return;
  for (Anchor& anchor : found.anchors) {  // back to where the network's focal length shows them
    const auto frame = static_cast<std::size_t>(anchor.frame);
    if (std::ranges::count(untold, static_cast<std::size_t>(found.lens_of[frame])) > 0)
      anchor.log_depth -= log_nearer(frame);
  }
  for (const std::size_t i : untold) {
    // What k1 and k2 do to pixels stays.
    const double square = std::pow(network_[i].focal.x() / found.lenses[i].focal.x(), 2);
    const Eigen::Vector2d distortion =
        found.lenses[i].distortion.cwiseProduct(Eigen::Vector2d(square, square * square));
    found.lenses[i] = start_.lenses[i] = network_[i];
    if (found.lens_free[i].k1) found.lenses[i].distortion = distortion;
    found.lens_free[i].focal = found.lens_free[i].aspect = false;
  }
  if (untold.size() == found.lenses.size() && model_ == kAspect.model) model_ = model_of(options_);
  adjust(found, kHeldTrial);
  adjust(found, kFully);
}

/// Frees what adjust() holds once more, now that the matches are the last ones: they can say clearly what
/// those of the first passes did not.
void BundleTrials::try_held_focals(Bundle& found) {
  const double error = error_of(found, found);
  const Adjusted held = adjusted_of(found);
  for (std::size_t i = 0; i < found.lens_free.size(); ++i)
    found.lens_free[i].focal = start_.lens_free[i].focal;
  solve(found, kTrial);
  solve(found, kFully);
  const bool is_told = std::ranges::none_of(untold_focals(found), [&](std::size_t i) {
    return held.lens_free[i].focal != start_.lens_free[i].focal;
  });
  if (!(farthest_focal(found.lenses) < kMostFocal && error_of(found, found) < kStillBetter * error &&
        is_told))
    put(held, found);
}

/// Lenses whose focal length or aspect is free, but not told by the matches, nor that the network's is wrong.
std::vector<std::size_t> BundleTrials::untold_focals(Bundle& found) const {
  const std::vector<double> deviations = focal_deviations(found, kMostAsked, bytes_beside(found), events_);
  std::vector<std::size_t> lenses;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    const double moved = std::abs(std::log(found.lenses[i].focal.x() / network_[i].focal.x()));
    if (deviations[i] >= kTold && moved < kSurely * deviations[i]) lenses.push_back(i);
  }
  return lenses;
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

/// How far the focal length of a lens is from the given one: of their ratio the logarithm, without sign.
double BundleTrials::focal_moved(const std::vector<Lens>& lenses, std::size_t lens) const {
  return std::abs(std::log(lenses[lens].focal.x() / start_.lenses[lens].focal.x()));
}

double BundleTrials::farthest_focal(const std::vector<Lens>& lenses) const {
  double farthest = 0;
  for (std::size_t i = 0; i < lenses.size(); ++i) farthest = std::max(farthest, focal_moved(lenses, i));
  return farthest;
}

bool BundleTrials::holds_focal(const std::vector<LensFreedom>& lens_free) const {
  for (std::size_t i = 0; i < lens_free.size(); ++i) {
    if (lens_free[i].focal != start_.lens_free[i].focal) return true;
  }
  return false;
}

/// Whether a focal length has moved so far that something else may be wrong, or was held as it moved too
/// far.
bool BundleTrials::doubts_focal(const Adjusted& adjusted) const {
  return farthest_focal(adjusted.lenses) > kDoubtfulFocal || holds_focal(adjusted.lens_free);
}

}  // namespace vggt
