#include "app/health/health_warnings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "app/scene/median.h"
#include "io/files/text.h"

namespace vggt {
namespace {

constexpr double kBlank = 3;         // contrast, of 255: of a black frame's noise, not of fog
constexpr double kWeak = 0.2;        // strength of a frame's strongest link
constexpr double kDoubtful = 0.25;   // agreement of a frame with those that it is linked with
constexpr double kDisagree = 0.4;    // the median of all frames' agreement
constexpr double kUnsure = 0.08;     // confidence above 1, as a share of the median's
constexpr double kMisfitPixels = 3;  // mean error of a frame's tracks
constexpr double kMisfit = 4;        // the same as a multiple of the median's
constexpr double kOnePlace = 0.012;  // radians (0.7°) between the views of linked frames
constexpr std::size_t kFewest = 4;   // frames that tell what is usual

/// Consecutive frames.
struct Run {
  int first = 0, last = 0;
  int count() const { return last - first + 1; }
};

std::vector<Run> runs_of(const std::vector<bool>& marked) {
  std::vector<Run> runs;
  for (int i = 0; i < static_cast<int>(marked.size()); ++i) {
    if (!marked[static_cast<std::size_t>(i)]) continue;
    if (!runs.empty() && runs.back().last == i - 1) {
      runs.back().last = i;
    } else {
      runs.push_back({i, i});
    }
  }
  return runs;
}

/// The middle one of the values that are known; NaN if there are too few to tell.
double usual(const std::vector<FrameHealth>& frames, double FrameHealth::*value) {
  std::vector<double> known;
  for (const FrameHealth& frame : frames) {
    if (std::isfinite(frame.*value)) known.push_back(frame.*value);
  }
  return known.size() < kFewest ? std::numeric_limits<double>::quiet_NaN() : median(std::span(known));
}

class Warnings {
 public:
  Warnings(const SceneHealth& health, const std::vector<std::string>& files)
      : health_(health), files_(files), named_(files.size(), false) {}

  std::size_t size() const { return files_.size(); }
  bool is_named(int frame) const { return named_[static_cast<std::size_t>(frame)]; }
  const FrameHealth& frame(int i) const { return health_.frames[static_cast<std::size_t>(i)]; }
  std::string name(int i) const { return printable(files_[static_cast<std::size_t>(i)]); }
  std::string name(const Run& run) const {
    if (run.count() == 1) return name(run.first);
    return name(run.first) + " to " + name(run.last) + " (" + std::to_string(run.count()) + " frames)";
  }

  /// Names each run of frames that the test holds for and that no warning has named.
  void add(const char* kind, const std::function<bool(int frame)>& test,
           const std::function<std::string(const Run&)>& text) {
    std::vector<bool> marked(size());
    for (int i = 0; i < static_cast<int>(size()); ++i)
      marked[static_cast<std::size_t>(i)] = !is_named(i) && test(i);
    for (const Run& run : runs_of(marked)) {
      found_.push_back({kind, run.first, run.last, text(run)});
      for (int i = run.first; i <= run.last; ++i) named_[static_cast<std::size_t>(i)] = true;
    }
  }
  void add_scene(const char* kind, const std::string& text) { found_.push_back({kind, -1, -1, text}); }
  std::vector<HealthWarning> take() { return std::move(found_); }

 private:
  const SceneHealth& health_;
  const std::vector<std::string>& files_;
  std::vector<bool> named_;
  std::vector<HealthWarning> found_;
};

/// What to do about frames that nothing links with the others.
std::string apart_text(const Warnings& warnings, const Run& run) {
  const bool one = run.count() == 1;
  const std::string see = warnings.name(run) +
                          (one ? " sees nothing that the others see" : " see nothing that the others see") +
                          ", so that " + (one ? "its place" : "their place") + " among them is a guess: ";
  const int last = static_cast<int>(warnings.size()) - 1;
  std::string where;
  if (run.first > 0) where = "between " + warnings.name(run.first - 1) + " and " + warnings.name(run.first);
  if (run.last < last)
    where += (where.empty() ? "between " : ", and between ") + warnings.name(run.last) + " and " +
             warnings.name(run.last + 1);
  // Of one frame it may be the picture's fault.
  return see + (one ? "is it blurred, or turned? Else take" : "take") + " more photographs " + where +
         ", or leave " + (one ? "it" : "them") + " out";
}

/// Of frames whose cameras may be wrong; they need not be neighbours.
std::string few_matches_text(const std::vector<std::string>& frames) {
  constexpr std::size_t kNamed = 3;
  if (frames.size() == 1) return "few matches hold the camera of " + frames.front() + ", which may be wrong";
  return "few matches hold the cameras of " + std::to_string(frames.size()) +
         " frames, which may be wrong: " + first_of(frames, kNamed);
}

bool is_one_place(const std::vector<FrameLink>& links) {
  std::vector<double> angles;
  for (const FrameLink& link : links) {
    if (link.strength > kWeak) angles.push_back(link.angle_rad);
  }
  return angles.size() >= 2 && std::ranges::max(angles) < kOnePlace;
}

}  // namespace

std::vector<HealthWarning> health_warnings(const SceneHealth& health, const std::vector<std::string>& files,
                                           const std::vector<FrameLink>& links,
                                           const std::vector<int>& jumps) {
  Warnings warnings(health, files);
  const auto is_or_are = [](const Run& run) { return run.count() == 1 ? " is " : " are "; };
  const auto it = [](const Run& run) { return run.count() == 1 ? std::string("it") : std::string("them"); };
  warnings.add(
      "blank", [&](int i) { return warnings.frame(i).contrast < kBlank; },
      [&](const Run& run) {
        if (run.count() == static_cast<int>(files.size()))
          return std::string(
              "all frames are of one colour, as behind a lid: there is nothing to reconstruct");
        return warnings.name(run) + is_or_are(run) + "of one colour, as behind a lid: leave " + it(run) +
               " out";
      });
  warnings.add(
      "apart", [&](int i) { return health.parts > 1 && warnings.frame(i).part > 0; },
      [&](const Run& run) { return apart_text(warnings, run); });
  warnings.add(
      "jump", [&](int i) { return std::ranges::count(jumps, i) > 0; },
      [&](const Run& run) {
        return "the camera jumps at " + warnings.name(run) +
               " and is back in the next frame: it is probably placed wrongly; leave it out, or take more "
               "photographs around it";
      });
  const double error = usual(health.frames, &FrameHealth::reprojection_px);
  warnings.add(
      "misfit",
      [&](int i) {
        const double own = warnings.frame(i).reprojection_px;
        return own > kMisfitPixels && own > kMisfit * error;
      },
      [&](const Run& run) {
        return "what " + warnings.name(run) +
               " shows is several pixels off where the others have it: something " + "moved, or " + it(run) +
               is_or_are(run) + "placed wrongly";
      });
  const double sure = usual(health.frames, &FrameHealth::confidence) - 1;
  warnings.add(
      "unsure", [&](int i) { return warnings.frame(i).confidence - 1 < kUnsure * sure; },
      [&](const Run& run) {
        return "the network is much less sure of " + warnings.name(run) +
               " than of the others: blurred, dark or of another place? Look at " + it(run);
      });
  std::vector<std::string> few_matches;
  for (int i = 0; i < static_cast<int>(files.size()); ++i) {
    if (warnings.frame(i).few_matches && !warnings.is_named(i)) few_matches.push_back(warnings.name(i));
  }
  if (!few_matches.empty()) warnings.add_scene("few matches", few_matches_text(few_matches));
  const bool agree = !(health.agreement < kDisagree);
  warnings.add(
      "weak",
      [&](int i) {
        const FrameHealth& frame = warnings.frame(i);
        return health.frames.size() > 1 && agree && frame.tracks == 0 &&
               (frame.link < kWeak || frame.agreement < kDoubtful);
      },
      [&](const Run& run) {
        const bool one = run.count() == 1;
        return warnings.name(run) + (one ? " fits" : " fit") +
               " to the others in few places: " + (one ? "is it blurred, or turned? Else take" : "take") +
               " more photographs that see the same as " + it(run);
      });
  if (!agree)
    warnings.add_scene("disagreement",
                       "the frames' depths agree with each other in few places: do they show one place that "
                       "does not move? Take more photographs, with more overlap");
  if (is_one_place(links))
    warnings.add_scene("one place",
                       "all frames are taken from nearly one place, so that distances are guesses: take "
                       "photographs from other places, a step or more to the side");
  return warnings.take();
}

}  // namespace vggt
