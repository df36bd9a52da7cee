#include "app/adjust/adjust_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/adjust/adjustment_passes.h"
#include "app/adjust/copied_frames.h"
#include "app/adjust/held_out.h"
#include "app/adjust/image_matcher.h"
#include "app/adjust/known_poses.h"
#include "app/adjust/within_memory.h"
#include "app/scene/median.h"
#include "app/scene/world_move.h"

namespace vggt {
namespace {

std::size_t usable_frames(const std::vector<Camera>& cameras) {
  return static_cast<std::size_t>(std::ranges::count_if(cameras, &Camera::valid));
}

/// Why these cameras cannot be adjusted; empty if they can.
std::string obstacle(const std::vector<Camera>& cameras) {
  if (cameras.size() == 1) return "one frame";
  if (usable_frames(cameras) < 2) return "fewer than two frames have a camera";
  return {};
}

/// Of the observations of tracks, each beside its track's first one, the share that these cameras show
/// clearly farther off than matches are.
double unexplained(const MatchInput& input, const std::vector<Camera>& cameras,
                   const std::vector<Track>& tracks) {
  constexpr double kFar = 3;  // pixels of the images compared
  std::vector<Anchor> firsts;
  std::vector<Sighting> others;
  for (const Track& track : tracks) {
    const Observation& first = track.observations.front();
    for (std::size_t i = 1; i < track.observations.size(); ++i)
      others.push_back(
          {static_cast<int>(firsts.size()), track.observations[i].frame, track.observations[i].pixel});
    firsts.push_back({first.frame, first.pixel});
  }
  const std::vector<double> errors = epipolar_errors(bundle_as_given(cameras), firsts, others);
  double far = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const MatchFrame& frame = input.frames[static_cast<std::size_t>(others[i].frame)];
    if (errors[i] > kFar * compared_pixel(frame)) far += 1;
  }
  return errors.empty() ? 0 : far / static_cast<double>(errors.size());
}

/// Whether the middles of some images lie elsewhere beside their cameras' axes than those of others.
bool look_apart(const std::vector<Camera>& cameras) {
  constexpr double kApart = 0.02;  // of the focal length
  const auto first = std::ranges::find(cameras, true, &Camera::valid);
  return std::any_of(first, cameras.end(), [&](const Camera& camera) {
    return camera.valid && (middle_ray(camera) - middle_ray(*first)).norm() > kApart;
  });
}

/// Cameras that were turned by the whole angle from their axes to the middles of their images, as if by a
/// part of it.
std::vector<Camera> turned_by(double part, std::vector<Camera> cameras) {
  for (Camera& camera : cameras) {
    Eigen::AngleAxisd turn(Eigen::Quaterniond::FromTwoVectors(Eigen::Vector3d::UnitZ(), middle_ray(camera)));
    turn.angle() *= part - 1;
    camera.cam_from_world.prerotate(turn);
  }
  return cameras;
}

/// Adjustments of one scene, each within memory.
class SceneFit {
  static constexpr std::size_t kLeastOfFrame = 50;  // fewer matches do not hold a camera
  static constexpr std::size_t kFewOfFrame = 200, kVeryFewOfFrame = 100;  // most scenes have 500 to 2000

 public:
  /// in_one_place: whether the given poses are.
  SceneFit(const MatchInput& input, DenseMaps& depth, bool in_one_place, const Events& events)
      : input_(input), depth_(depth), events_(events), in_one_place_(in_one_place) {}

  /// As first_copies().
  std::vector<std::size_t> find_copies(const std::vector<Camera>& cameras, bool lens_is_known) {
    std::vector<std::size_t> first;
    within_memory(input_, events_, lean_,
                  [&](bool) { first = first_copies(input_, cameras, lens_is_known, events_); });
    return first;
  }

  Found find(const std::vector<Camera>& cameras, const AdjustOptions& options) {
    Found found;
    within_memory(input_, events_, lean_, [&](bool is_lean) {
      found = adjust_in_passes(input_, depth_, cameras, options, is_lean, events_);
    });
    return found;
  }

  /// Passes that know of no distortion yet find few matches through a lens that has much, and may leave
  /// frames apart whose lens they find later. So where that may be so, the scene is adjusted with k1 and k2
  /// free from the first pass on, too, which is taken where it finds clearly more matches.
  Found find_through_any_lens(const std::vector<Camera>& cameras, const AdjustOptions& options) {
    constexpr double kTimes = 1.5;
    const auto frames = usable_frames(cameras);
    Found found = find(cameras, options);
    if (!lenses_are_open(options) || frames < 3 || !may_miss_lens(found, frames)) return found;
    const std::size_t fewest = std::max(found.matches, kLeastOfFrame * frames);
    // Corrected depth is held of one adjustment at once: its files have one name.
    const bool has_depth = std::exchange(found.depth, nullptr) != nullptr;
    AdjustOptions bent = options;
    bent.model = CameraModel::radial;
    std::optional<Found> own = find_if_memory(cameras, bent);
    if (own && own->scene.changed && static_cast<double>(own->matches) > kTimes * static_cast<double>(fewest))
      return std::move(*own);
    own.reset();
    return has_depth ? find(cameras, options) : std::move(found);
  }

  /// Images that were cropped at different sides look to different sides of their cameras' axes. The network
  /// takes some of that for a turn and some for a step, how much nobody knows. So the scene is also adjusted
  /// from cameras that are turned by half of it, and by other parts while it falls apart; one that does not
  /// is taken where the first one does, or finds clearly fewer matches.
  Found find_from_any_turn(const std::vector<Camera>& cameras, const AdjustOptions& options) {
    constexpr double kTimes = 1.3;
    Found found = find_through_any_lens(cameras, options);
    if (options.intrinsics == Known::no || !look_apart(cameras)) return found;
    double found_part = 1;
    bool lacks_depth = false;
    for (const double part : {0.5, 0.0, -0.5}) {
      if (part < 0.5 && !is_torn(found)) break;
      // Corrected depth is held of one adjustment at once: its files have one name.
      lacks_depth |= std::exchange(found.depth, nullptr) != nullptr;
      std::optional<Found> other = find_if_memory(turned_by(part, cameras), options);
      if (!other || is_torn(*other)) continue;
      if (!is_torn(found) &&
          static_cast<double>(other->matches) < kTimes * static_cast<double>(found.matches))
        continue;
      found = std::move(*other);
      found_part = part;
      lacks_depth = false;
    }
    if (!lacks_depth) return found;
    return found_part == 1 ? find_through_any_lens(cameras, options)
                           : find(turned_by(found_part, cameras), options);
  }

  /// From poses that are nearly right, matches may be found only between frames whose errors agree: the scene
  /// is then adjusted in parts that lie wrong to each other, of which its own matches say nothing. So it is
  /// also adjusted without them. Its own cameras are taken where they explain what was found from the given
  /// poses, but not the other way round. Where they agree with the given poses, they are also taken if they
  /// alone link all frames. Where they do not agree, they are also taken if they have clearly more matches.
  Found find_from_nearly(const std::vector<Camera>& given, const AdjustOptions& options) {
    const std::optional<std::vector<Camera>> guessed = with_guessed_poses(input_, given);
    if (!guessed) return find(given, options);
    const AdjustOptions without = without_poses(options);
    std::optional<Found> own = find_if_memory(*guessed, without);
    if (own)
      own->depth = nullptr;  // corrected depth is held of one adjustment at once: its files have one name
    Found found = find(given, options);
    if (!own || !own->scene.changed) return found;
    constexpr double kTimes = 2, kLeast = 0.02;
    const double by_own = unexplained(input_, own->scene.cameras, found.scene.tracks),
                 by_found = unexplained(input_, found.scene.cameras, own->scene.tracks);
    const bool links_more = own->scene.groups.empty() && !found.scene.groups.empty(),
               explains_more = by_found > kTimes * by_own && by_found > kLeast,
               finds_more =
                   own->matches > kTimes * std::max(found.matches, kLeastOfFrame * usable_frames(given));
    if (!links_more && !explains_more && !finds_more) return found;
    const std::optional<BesideGiven> beside = compare_with(given, *own);
    const bool agrees = beside && beside->agrees(),
               does_not_fit = in_one_place_ ? finds_more : beside && !agrees && (explains_more || finds_more);
    if (agrees ? !links_more && !explains_more : !does_not_fit) return found;
    if (in_one_place_) warn_of_one_place(*own, found.matches);
    found.depth = nullptr;
    std::optional<Found> again = find_if_memory(*guessed, without);
    began_without_ = again.has_value();
    if (!again) return find(given, options);
    again->scene.leaves_poses_out = does_not_fit;
    again->scene.summary +=
        agrees
            ? "; the given poses are too far off to begin from: this began without them"
            : "; the given poses do not fit the images: this leaves them out, and is in the network's world";
    return std::move(*again);
  }

  void write_depth(const Found& found) {
    if (!found.depth) return;
    within_memory(input_, events_, lean_, [&](bool is_lean) {
      found.depth->write(found.scene.cameras, found.scene.pairs, is_lean, events_, depth_);
    });
  }

  /// Where few matches are found from given poses, the network's depth may be far from right in their world,
  /// as its own poses were wrong. Then the scene is adjusted without them; what comes out, if it agrees with
  /// them, takes the network's place, and `found` becomes what is found from there.
  void find_from_network(const std::vector<Camera>& given, const AdjustOptions& options, Found& found) {
    if (has_warned_ || began_without_) return;
    if (found.matches >= kFewOfFrame * usable_frames(given)) return;
    const std::optional<std::vector<Camera>> guessed = with_guessed_poses(input_, given);
    if (!guessed) return;
    // Corrected depth is held of one adjustment at once: its files have one name.
    const bool has_depth = std::exchange(found.depth, nullptr) != nullptr;
    const std::optional<std::vector<Camera>> nearer = bring_to(given, *guessed, options, found.matches);
    if (!nearer) {
      if (has_depth) found = find(given, options);
      return;
    }
    Found again;
    try {
      again = find(*nearer, options);
    } catch (const std::exception& error) {
      if (options.must || !means_no_memory(error)) throw;
      again = not_adjusted("out of memory", *nearer);
    }
    if (!again.scene.changed)
      again.scene.summary =
          "adjusted without the given poses and brought to them; with them " + again.scene.summary;
    again.scene.changed = true;
    found = std::move(again);
  }

  /// Whether a warning has said that the given poses do not fit the images.
  bool has_warned() const { return has_warned_; }

 private:
  /// Whether some frames are linked with others by few matches or none.
  static bool is_torn(const Found& found) { return !found.scene.changed || !found.scene.groups.empty(); }

  /// Adjusts from the network's poses, and brings depth to the world of the given ones: the cameras to go on
  /// from. Nothing, and depth as it was, where that finds not clearly more than `few` matches, runs out of
  /// memory, or where the given poses do not fit, which a warning says.
  std::optional<std::vector<Camera>> bring_to(const std::vector<Camera>& given,
                                              const std::vector<Camera>& guessed,
                                              const AdjustOptions& options, std::size_t few) {
    const std::optional<Found> own = find_if_memory(guessed, without_poses(options));
    if (!own || own->matches < std::max(kLeastOfFrame * usable_frames(given), 2 * few)) return std::nullopt;
    if (in_one_place_) {
      warn_of_one_place(*own, few);
      return std::nullopt;
    }
    const std::optional<BesideGiven> beside = compare_with(given, *own);
    if (!beside || !beside->agrees()) return std::nullopt;
    write_depth(*own);
    scale_depth(depth_, static_cast<int>(given.size()), beside->scale);
    return options.intrinsics == Known::no ? with_lenses_of(own->scene.cameras, given) : given;
  }

  /// Whether there are very few matches, or frames of a distorted lens are apart or hang on few.
  static bool may_miss_lens(const Found& found, std::size_t frames) {
    if (!found.scene.changed || found.matches < kVeryFewOfFrame * frames) return true;
    const bool are_apart = !found.scene.groups.empty() || !found.scene.weak_frames.empty();
    return are_apart && std::ranges::any_of(found.scene.cameras, &Camera::is_distorted);
  }

  static AdjustOptions without_poses(AdjustOptions options) {
    options.poses = Known::no;
    return options;
  }

  /// Nothing where memory runs out.
  std::optional<Found> find_if_memory(const std::vector<Camera>& cameras, const AdjustOptions& options) {
    try {
      return find(cameras, options);
    } catch (const std::exception& error) {
      if (!means_no_memory(error)) throw;
      return std::nullopt;
    }
  }

  /// How cameras that were adjusted without the given poses lie to these. Where they do not agree, a warning
  /// says so. Nothing where no similarity tells that, and of groups that no match links.
  std::optional<BesideGiven> compare_with(const std::vector<Camera>& given, const Found& own) {
    if (in_one_place_ || !own.scene.groups.empty()) return std::nullopt;
    const std::optional<BesideGiven> beside = beside_given(own.scene.cameras, given);
    if (!beside || beside->agrees()) return beside;
    warn_of_poses(
        fmt::format("cameras adjusted to {} matches are {:.1f} degrees (median) and {:.0f} % of their spread "
                    "away from them",
                    own.matches, beside->turn_deg, 100 * beside->distance));
    return beside;
  }

  void warn_of_one_place(const Found& own, std::size_t from_given) {
    warn_of_poses("all lie in one place, from where " + std::to_string(from_given) +
                  " matches are found instead of " + std::to_string(own.matches));
  }

  void warn_of_poses(const std::string& why) {
    events_.warn("the given poses do not fit the images: " + why +
                 "; are they of these frames, and as their format says?");
    has_warned_ = true;
  }

  const MatchInput& input_;
  DenseMaps& depth_;
  const Events& events_;
  const bool in_one_place_;
  std::optional<OneThread> lean_;
  bool has_warned_ = false, began_without_ = false;
};

/// Such as "focal length 813.9 instead of 850.0 pixels, k1 -0.120 instead of 0.000".
std::string lens_change(const OtherLens& other) {
  const auto focal = [](const Lens& lens, bool one) {
    return one ? fmt::format("{:.1f}", lens.focal.x())
               : fmt::format("{:.1f} and {:.1f}", lens.focal.x(), lens.focal.y());
  };
  std::string change;
  if (other.focal) {
    constexpr double kSquare = 0.01;
    const auto is_one = [](const Lens& lens) {
      return std::abs(lens.focal.x() / lens.focal.y() - 1) < kSquare;
    };
    const bool one = is_one(other.given) && is_one(other.shown);
    change = (one ? "focal length " : "focal lengths ") + focal(other.shown, one) + " instead of " +
             focal(other.given, one) + " pixels";
  }
  if (!other.k1) return change;
  return change + fmt::format("{}k1 {:.3f} instead of {:.3f}", change.empty() ? "" : ", ",
                              other.shown.distortion[0], other.given.distortion[0]);
}

/// What is given as exact and leaves the matches far from where it shows them is wrong, or not exact. Where
/// nothing is, the matches or the cameras may be wrong, as where few frames do not tell the focal length.
void warn_of_misfit(const MatchInput& input, const Found& found, const AdjustOptions& options,
                    const Events& events) {
  // Pixels of the images compared; usually .05 to .3, of few frames that are far from each other up to .6.
  constexpr double kUsual = 0.3, kFarOff = 0.5, kFartherOff = 0.6;
  const bool poses = options.poses == Known::exactly, intrinsics = options.intrinsics == Known::exactly;
  std::vector<double> sizes;
  for (const MatchFrame& frame : input.frames) sizes.push_back(compared_pixel(frame));
  const double pixel = median(std::span(sizes));
  if (!poses && !intrinsics) {
    if (found.scene.changed && found.held_out_px >= kFartherOff * pixel)
      events.warn(fmt::format(
          "matches that were held out are {:.1f} pixels off, and usually less than {:.1f}: cameras "
          "and focal length may be wrong",
          found.held_out_px, kUsual * pixel));
    return;
  }
  if (found.held_out_px < kFarOff * pixel && !found.other_lens) return;
  std::string what = poses ? "poses" : "intrinsics", refine = what;
  if (poses && intrinsics) {
    what += " and intrinsics";
    refine += ",intrinsics";
  }
  if (!poses && options.poses == Known::nearly) refine += ",poses";
  std::string lens = intrinsics ? "" : ", to which the focal length is fitted";
  if (found.other_lens)
    lens = std::string(", and show another lens ") + (found.other_lens->of_several ? "of one camera " : "") +
           "(" + lens_change(*found.other_lens) + ")";
  events.warn(fmt::format(
      "matches that were held out are {:.{}f} pixels off with the given {}{}: where these are not "
      "exact, --refine {} starts from them",
      found.held_out_px, found.other_lens ? 2 : 1, what, lens, refine));
}

/// Matches of what moves with the camera hide those of the scene, and the network has seen it, too.
void warn_of_overlays(const Found& found, const Events& events) {
  constexpr double kMany = 0.2;
  if (found.overlays < kMany) return;
  events.warn(
      "much stays at one place of the images while the rest moves, as of something that is fixed to the "
      "camera or laid over the images: cameras may be wrong; crop it off, on opposite sides alike");
}

/// Pictures are not squeezed by more than half.
void warn_of_squeezed(const Found& found, const AdjustOptions& options, const Events& events) {
  constexpr double kMost = 2;
  if (options.intrinsics == Known::exactly || !found.scene.changed) return;
  for (const Camera& camera : found.scene.cameras) {
    const Eigen::Matrix3d k = camera.k_original();
    const double x = k(0, 0), y = k(1, 1);
    if (!camera.valid || (x <= kMost * y && y <= kMost * x)) continue;
    events.warn("focal lengths of " + std::to_string(std::lround(x)) + " and " +
                std::to_string(std::lround(y)) +
                " pixels are of no usual camera: cameras may be wrong; --camera simple-pinhole or "
                "simple-radial keeps them equal");
    return;
  }
}

/// Tells of poses whose places fit, but not their orientations, as of a mirrored world, and finds those that
/// do not fit beside the others.
void judge_given_poses(const std::vector<Camera>& given, AdjustedScene& scene, const Events& events) {
  constexpr double kFarOff = 10;  // degrees
  const std::optional<BesideGiven> beside = beside_given(scene.cameras, given);
  if (!beside) return;
  scene.wrong_poses = beside->wrong;
  if (beside->turn_deg < kFarOff) return;
  events.warn(
      "the orientations of the given poses are " + std::to_string(std::lround(beside->turn_deg)) +
      " degrees (median) from those that the images show: are they about the axes of their format, and "
      "not mirrored?");
}

AdjustedScene adjust_here(const MatchInput& input, DenseMaps& depth, const std::vector<Camera>& cameras,
                          bool in_one_place, const AdjustOptions& options, const Events& events) {
  const auto stays = [&](const std::string& why) {
    return not_adjusted(why, cameras_of(bundle_of(input, cameras, options), cameras, model_of(options)))
        .scene;
  };
  if (const std::string why = obstacle(cameras); !why.empty()) return stays(why);
  SceneFit fit(input, depth, in_one_place, events);
  Found found;
  // Between copies nothing is to be seen, and as partners of each other they would take the place of frames
  // that tell where they are. Poses that are given may differ all the same.
  std::vector<std::size_t> first;
  try {
    if (options.poses == Known::no) first = fit.find_copies(cameras, options.intrinsics != Known::no);
    const std::vector<Camera> distinct = without_copies(cameras, first);
    if (!obstacle(distinct).empty()) return stays("all frames with a camera show the same");
    found = options.poses == Known::nearly ? fit.find_from_nearly(distinct, options)
                                           : fit.find_from_any_turn(distinct, options);
  } catch (const TooManyEquations&) {
    if (options.must) throw;
    events.warn(
        "--host-memory has no room for the equations of the adjustment: cameras and depth are not adjusted");
    return stays("no room for the equations");
  } catch (const std::exception& error) {
    if (options.must || !means_no_memory(error)) throw;
    events.warn("out of memory in the adjustment: cameras and depth are not adjusted");
    return stays("out of memory");
  }
  if (options.poses != Known::no) fit.find_from_network(cameras, options, found);
  if (!fit.has_warned()) warn_of_misfit(input, found, options, events);
  warn_of_overlays(found, events);
  warn_of_squeezed(found, options, events);
  fit.write_depth(found);
  give_to_copies(first, cameras, depth, found.scene);
  found.scene.first = std::move(first);
  return std::move(found.scene);
}

}  // namespace

AdjustedScene adjust_scene(const MatchInput& input, DenseMaps& depth, const std::vector<Camera>& cameras,
                           const AdjustOptions& options, const Events& events) {
  const auto first = std::ranges::find(cameras, true, &Camera::valid);
  const bool in_one_place = are_in_one_place(cameras);
  if (options.poses != Known::nearly || first == cameras.end())
    return adjust_here(input, depth, cameras, in_one_place, options, events);
  // Far from the origin a small turn moves what lies there by much, and poses would hardly turn.
  const Eigen::Vector3d origin = first->center();
  std::vector<Camera> near = cameras;
  move_cameras(Eigen::Affine3d(Eigen::Translation3d(-origin)), near);
  AdjustedScene scene = adjust_here(input, depth, near, in_one_place, options, events);
  if (!scene.changed) {
    for (std::size_t i = 0; i < cameras.size(); ++i)
      scene.cameras[i].cam_from_world = cameras[i].cam_from_world;
    return scene;
  }
  if (scene.leaves_poses_out) return scene;
  // Poses in one place tell no scale, but their rounding would.
  Eigen::Affine3d back = Eigen::Affine3d::Identity();
  if (!in_one_place) back = back_to_given(scene.cameras, near);
  const Eigen::Affine3d moved_back = Eigen::Translation3d(origin) * back;
  move_cameras(moved_back, scene.cameras);
  move_tracks(moved_back, scene.tracks);
  if (const double scale = scale_of(back); scale != 1)
    scale_depth(depth, static_cast<int>(cameras.size()), scale);
  judge_given_poses(cameras, scene, events);
  return scene;
}

double adjustment_work(int64_t frames, double gray_pixels) {
  constexpr double kPixels = 400;  // that take as long as an anchor in a frame
  // Of many frames fewer anchors are looked for, while other work stays as long for each frame: measured on
  // 66 to 100 frames of a video beside 60.
  const double of_anchor = are_many(frames) ? 2.5 : 1;
  return of_anchor * static_cast<double>(most_looked_for(frames)) + gray_pixels / kPixels;
}

int64_t adjustment_bytes(int64_t frames, int64_t gray_pixels, bool at_least) {
  if (frames < 2) return 0;
  const bool many = are_many(frames);
  constexpr double kOfFrame = 1.2e6, kOfOneOfMany = 4.2e5;  // its matches; of many frames each has fewer
  constexpr int64_t kLeastOfMany = 60'000'000;
  const auto matches = static_cast<int64_t>((many ? kOfOneOfMany : kOfFrame) * static_cast<double>(frames) *
                                            share_of_anchors(frames, static_cast<double>(gray_pixels)));
  const int64_t least = many && !at_least ? kLeastOfMany : 0;
  return std::max(least, matches) + equation_bytes(frames, at_least);
}

}  // namespace vggt
