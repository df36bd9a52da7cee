#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "app/adjust/bundle_trials.h"
#include "app/adjust/held_out.h"
#include "app/adjust/trial_rules.h"

// Which focal length: what BundleTrials does where the network's is doubted.
namespace vggt {
namespace {

// Logarithms: how far a focal length may move from the network's before the prior of depth is doubted, how
// far at all, and how far where the matches clearly say so.
constexpr double kDoubtfulFocal = 0.15, kFarFocal = 0.7, kMostFocal = 1.4;
constexpr double kFarthestFound = 1.25;          // likewise, of one that is looked for
constexpr std::size_t kEnoughToSearch = 20'000;  // matches
// Standard deviations of a logarithm that matches of a pass that is not the last tell; and how many of them
// off the network's they tell in any case.
constexpr double kNearlyTold = 0.1, kSurely = 5;

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
  return std::ranges::all_of(deviations_of(found), [](const LensDeviations& deviation) {
    return deviation.focal < kNearlyTold;  // NaN is not
  });
}

double BundleTrials::log_nearer(std::size_t frame) const {
  const auto lens = static_cast<std::size_t>(start_.lens_of[frame]);
  return std::log(start_.lenses[lens].focal.x() / network_[lens].focal.x());
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
  const std::vector<LensDeviations> deviations = deviations_of(found);
  std::vector<std::size_t> lenses;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    const double moved = std::abs(std::log(found.lenses[i].focal.x() / network_[i].focal.x()));
    if (deviations[i].focal >= kTold && moved < kSurely * deviations[i].focal) lenses.push_back(i);
  }
  return lenses;
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
