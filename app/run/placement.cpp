#include "app/run/placement.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <stdexcept>

#include "app/scene/align_cameras.h"
#include "app/scene/known_cameras.h"
#include "app/scene/world_move.h"
#include "io/files/text.h"
#include "io/scene/pose_files.h"

namespace vggt {
namespace {

constexpr std::size_t kFewestCommon = 2;  // centres give a scale, rotations what two centres leave open

std::string where(const PlacementPlan& plan) {
  return "align: " + plan.align_file;
}

/// Three digits of a number.
std::string brief(double value) {
  std::ostringstream text;
  text.precision(3);
  text << value;
  return text.str();
}

void refuse_few(const PlacementPlan& plan, std::size_t common, const FrameSet& frames) {
  if (common >= kFewestCommon) return;
  throw std::invalid_argument(where(plan) + ": has poses of " + std::to_string(common) + " of the " +
                              std::to_string(frames.frames.size()) + " frames, but needs two or more");
}

/// Throws where all of these centres are one.
void check_apart(const PlacementPlan& plan, const Eigen::Matrix3Xd& centres) {
  constexpr double kSmallest = 1e-9;  // of the coordinates: nearer centres are one
  const Eigen::Vector3d middle = centres.rowwise().mean();
  if ((centres.colwise() - middle).norm() <= kSmallest * centres.norm())
    throw std::invalid_argument(where(plan) + ": all cameras stand in one place, which tells no scale");
}

/// Throws where no similarity follows from the cameras.
void check_aligned(const PlacementPlan& plan, const std::vector<CameraPair>& pairs,
                   const Eigen::Affine3d& similarity) {
  const Centres centres = centres_of(pairs);
  check_apart(plan, centres.result);
  check_apart(plan, centres.truth);
  if (!(similarity.linear().determinant() > 0) || !similarity.matrix().allFinite())
    throw std::invalid_argument(where(plan) + ": no turn, shift and scale bring the cameras to these poses");
}

/// Says which poses were left out.
void warn_of_wrong_poses(const PlacementPlan& plan, const std::vector<std::string>& names,
                         const Events& events) {
  constexpr std::size_t kNamed = 3;
  if (names.empty()) return;
  events.warn(where(plan) + ": the poses of " + std::to_string(names.size()) +
              " frames do not fit to the others and are left out: " + first_of(names, kNamed));
}

/// What is left between cameras and poses.
struct Residual {
  double share = 0;  // of the poses' spread
  std::string text;
};
Residual residual_of(const std::vector<CameraPair>& pairs, const Eigen::Affine3d& similarity) {
  const Centres centres = centres_of(pairs);
  const double rms = rms_distance(centres, similarity);
  const double spread = spread_of(centres);
  return {rms / spread, "the cameras are " + brief(rms) + " from them (rms), " + brief(100 * rms / spread) +
                            " % of their spread"};
}

}  // namespace

void warn_of_rounding(const std::string& option, double far, double unit, const Events& events) {
  constexpr double kFloat = 6e-8, kMuch = 1e-4;
  if (far * kFloat < kMuch * unit) return;
  events.warn(option + ": coordinates of " + brief(far) + " are rounded to " + brief(far * kFloat) +
              " in the cloud, whose numbers are floats; poses nearer to the origin avoid that");
}

namespace {

Placement align_scene(const PlacementPlan& plan, const FrameSet& frames, const std::vector<Camera>& cameras,
                      const Events& events) {
  const std::vector<std::optional<Camera>> known = match_cameras(frames, plan.align_cameras, where(plan));
  std::vector<CameraPair> pairs, fitting;
  std::vector<std::string> files, wrong;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (!known[i] || !cameras[i].valid) continue;
    pairs.push_back({cameras[i], *known[i]});
    files.push_back(frames.frames[i].file);
  }
  refuse_few(plan, pairs.size(), frames);
  const RobustAlignment alignment = align_robustly(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (alignment.fits[i]) fitting.push_back(pairs[i]);
    if (!alignment.fits[i]) wrong.push_back(files[i]);
  }
  Placement placement{align_with_turns(fitting), {}};
  check_aligned(plan, fitting, placement.similarity);
  placement.summary = "aligned to " + std::to_string(fitting.size()) + " poses of " + plan.align_file;
  constexpr double kBad = 0.2;  // of the spread: of other poses it is 1 or nearly so
  constexpr double kBadTurn = 10;
  const Residual residual = residual_of(fitting, placement.similarity);
  const double turn = median_turn(fitting, placement.similarity) * 180 / std::numbers::pi;
  events.info("the scene is " + placement.summary + ": scale " + brief(scale_of(placement.similarity)) +
              ", " + residual.text + ", and turned by " + brief(turn) + "° (median)");
  if (!(residual.share < kBad))
    events.warn(where(plan) + ": " + residual.text + ": are they of this scene, by these names or times?");
  if (!(turn < kBadTurn) && residual.share < kBad)
    events.warn(
        where(plan) + ": the orientations of these poses are " + brief(turn) +
        "° from the cameras' (median): does the file have orientations, about the axes of its format?");
  warn_of_wrong_poses(plan, wrong, events);
  warn_of_rounding("align", placement.similarity.translation().cwiseAbs().maxCoeff(),
                   scale_of(placement.similarity), events);
  return placement;
}

/// Turned upright, where the cameras tell what is up.
Placement stand_up(const std::vector<Camera>& cameras, const Events& events) {
  const std::optional<DownGuess> guess = guess_down(cameras);
  if (!guess) {
    events.warn("up: the cameras have no common horizon; the scene is not turned");
    return {Eigen::Affine3d::Identity(), "not turned"};
  }
  Placement placement{turn_upright(guess->down), {}};
  const double degrees = Eigen::AngleAxisd(placement.similarity.linear()).angle() * 180 / std::numbers::pi;
  placement.summary = "turned upright by " + brief(degrees) + "°";
  events.info("the scene is " + placement.summary +
              " so that y points down: a guess from the cameras' horizon, " + "which they hold to " +
              brief(guess->median_tilt_deg) + "° (median)");
  return placement;
}

}  // namespace

PlacementPlan plan_placement(const std::string& align_file, std::optional<double> scale, bool upright) {
  PlacementPlan plan{align_file, {}, scale.value_or(1), upright};
  if (align_file.empty()) return plan;
  try {
    plan.align_cameras = read_pose_file(align_file);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("align: ") + error.what());
  }
  return plan;
}

void check_placement(const PlacementPlan& plan, const FrameSet& frames) {
  if (plan.align_file.empty()) return;
  std::vector<Eigen::Vector3d> common;
  for (const auto& camera : match_cameras(frames, plan.align_cameras, where(plan))) {
    if (camera) common.push_back(camera->center());
  }
  refuse_few(plan, common.size(), frames);
  check_apart(plan, Eigen::Map<const Eigen::Matrix3Xd>(common.front().data(), 3,
                                                       static_cast<Eigen::Index>(common.size())));
}

std::optional<Placement> place(const PlacementPlan& plan, const FrameSet& frames,
                               const std::vector<Camera>& cameras, const Events& events) {
  if (!plan.align_file.empty()) return align_scene(plan, frames, cameras, events);
  Placement placement;
  if (plan.upright) placement = stand_up(cameras, events);
  if (plan.scale != 1) {
    placement.similarity.prescale(plan.scale);
    placement.summary += (placement.summary.empty() ? "" : ", ") + ("scaled by " + brief(plan.scale));
  }
  if (placement.summary.empty()) return std::nullopt;
  return placement;
}

}  // namespace vggt
