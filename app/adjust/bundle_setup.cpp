#include "app/adjust/bundle_setup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "app/scene/median.h"

namespace vggt {
namespace {

constexpr double kOneFocal = 0.2;     // logarithm: focal lengths nearer to the median become the median
constexpr double kDepthOfTwo = 0.15;  // prior of log_depth for two frames, whose matches leave much open
constexpr double kNearTurn = 0.005, kNearShift = 0.01, kNearFocal = 0.01,
                 kNearDistortion = 0.02;  // known nearly

LensFreedom freedom_of(CameraModel model, Known intrinsics) {
  if (intrinsics == Known::exactly) return {false, false, false, false};
  return {true, model == CameraModel::pinhole,
          model == CameraModel::simple_radial || model == CameraModel::radial, model == CameraModel::radial};
}

/// The lens with what the model has no parameters for taken out.
Lens lens_within(CameraModel model, Lens lens) {
  const LensFreedom has = freedom_of(model, Known::no);
  if (!has.aspect) lens.focal.setConstant(mean_focal(lens));
  if (!has.k1) lens.distortion[0] = 0;
  if (!has.k2) lens.distortion[1] = 0;
  return lens;
}

/// The lens of square pixels with this focal length. Where the original's size is not known, the camera's
/// principal point stays.
Lens simple_lens(const Camera& camera, double focal) {
  Lens lens = lens_of(camera);
  lens.focal.setConstant(focal);
  lens.distortion.setZero();
  if (camera.original_width > 0 && camera.original_height > 0)
    lens.centre << (camera.original_width - 1) / 2.0, (camera.original_height - 1) / 2.0;
  return lens;
}

using CameraKey = std::tuple<int, int, std::string>;  // size of the original, EXIF

/// Gives each frame a lens; frames of one key share one, but those whose focal length is another.
void share_lenses(const MatchInput& input, const std::vector<Camera>& cameras, Bundle& bundle) {
  std::map<CameraKey, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    const Camera& camera = cameras[i];
    if (camera.valid)
      groups[{camera.original_width, camera.original_height, input.frames[i].camera}].push_back(i);
  }
  for (const auto& [key, frames] : groups) {
    std::vector<double> focals;
    for (const std::size_t i : frames) focals.push_back(mean_focal(lens_of(cameras[i])));
    const double middle = median(std::span(focals));
    int shared = -1;
    for (const std::size_t i : frames) {
      const double own = mean_focal(lens_of(cameras[i]));
      const bool alike = std::abs(std::log(own / middle)) < kOneFocal;
      if (!alike || shared < 0) {
        if (alike) shared = static_cast<int>(bundle.lenses.size());
        bundle.lens_of[i] = static_cast<int>(bundle.lenses.size());
        bundle.lenses.push_back(simple_lens(cameras[i], alike ? middle : own));
      } else {
        bundle.lens_of[i] = shared;
      }
    }
  }
}

/// Gives each frame its known lens, one for each camera_id, as far as a model that is asked for has it.
void take_lenses(const std::vector<Camera>& cameras, const AdjustOptions& options, Bundle& bundle) {
  std::map<int, int> of_camera;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (!cameras[i].valid) continue;
    const auto next = static_cast<int>(bundle.lenses.size());
    const int id = cameras[i].camera_id;
    bundle.lens_of[i] = id < 0 ? next : of_camera.try_emplace(id, next).first->second;
    if (bundle.lens_of[i] != next) continue;
    const CameraModel model = options.model.value_or(cameras[i].model);
    const Lens lens = lens_of(cameras[i]);
    bundle.lenses.push_back(options.model ? lens_within(model, lens) : lens);
    bundle.lens_free.push_back(freedom_of(model, options.intrinsics));
  }
}

}  // namespace

bool lenses_are_open(const AdjustOptions& options) {
  return !options.model && (options.intrinsics == Known::no || options.may_distort);
}

double mean_focal(const Lens& lens) {
  return std::sqrt(lens.focal.x() * lens.focal.y());
}

Lens lens_of(const Camera& camera) {
  const Eigen::Matrix3d k = camera.k_original();
  return {{k(0, 0), k(1, 1)}, {k(0, 2), k(1, 2)}, camera.distortion};
}

Eigen::Vector3d middle_ray(const Camera& camera) {
  if (!camera.valid || camera.original_width <= 0) return Eigen::Vector3d::UnitZ();
  return camera
      .ray({camera.map.network_x((camera.original_width - 1) / 2.0),
            camera.map.network_y((camera.original_height - 1) / 2.0)})
      .normalized();
}

std::optional<CameraModel> model_of(const AdjustOptions& options) {
  if (options.model || options.intrinsics != Known::no) return options.model;
  return CameraModel::simple_pinhole;
}

Bundle bundle_of(const MatchInput& input, const std::vector<Camera>& cameras, const AdjustOptions& options) {
  Bundle bundle;
  bool fixed = options.poses == Known::no;  // the first one holds the world where it is
  for (const Camera& camera : cameras) {
    bundle.poses.push_back(camera.valid ? camera.cam_from_world : Eigen::Isometry3d::Identity());
    bundle.free.push_back(camera.valid && options.poses != Known::exactly && !fixed);
    if (camera.valid) fixed = false;
  }
  bundle.lens_of.assign(cameras.size(), 0);
  if (options.intrinsics == Known::no) {
    share_lenses(input, cameras, bundle);
  } else {
    take_lenses(cameras, options, bundle);
  }
  if (bundle.lenses.empty()) bundle.lenses.emplace_back();
  const auto model = model_of(options);
  bundle.lens_free.resize(bundle.lenses.size(),
                          model ? freedom_of(*model, options.intrinsics) : LensFreedom());
  return bundle;
}

bool take_guessed_focals(const MatchInput& input, const std::vector<Camera>& cameras, Bundle& bundle) {
  constexpr double kFar = 0.1;  // logarithm
  std::vector<std::vector<double>> guessed(bundle.lenses.size());
  for (std::size_t i = 0; i < input.frames.size(); ++i) {
    if (const double focal = input.frames[i].guessed_focal; focal > 0 && cameras[i].valid)
      guessed[static_cast<std::size_t>(bundle.lens_of[i])].push_back(focal);
  }
  bool any = false;
  for (std::size_t i = 0; i < guessed.size(); ++i) {
    if (guessed[i].empty()) continue;
    Lens& lens = bundle.lenses[i];
    const double factor = median(std::span(guessed[i])) / mean_focal(lens);
    if (std::abs(std::log(factor)) < kFar) continue;
    lens.focal *= factor;
    bundle.lens_free[i].focal = true;
    any = true;
  }
  return any;
}

Bundle bundle_as_given(const std::vector<Camera>& cameras) {
  Bundle bundle;
  for (const Camera& camera : cameras) {
    bundle.poses.push_back(camera.valid ? camera.cam_from_world : Eigen::Isometry3d::Identity());
    bundle.lens_of.push_back(static_cast<int>(bundle.lenses.size()));
    bundle.lenses.push_back(camera.valid ? lens_of(camera) : Lens());
  }
  return bundle;
}

BundlePriors priors_of(const std::vector<Camera>& cameras, const AdjustOptions& options) {
  BundlePriors priors;
  if (std::ranges::count_if(cameras, &Camera::valid) == 2) priors.log_depth = kDepthOfTwo;
  if (options.poses != Known::no) {
    priors.rotation = kNearTurn;
    priors.translation = kNearShift;
  }
  if (options.intrinsics != Known::no) {
    priors.log_focal = priors.log_aspect = kNearFocal;
    priors.k1 = priors.k2 = kNearDistortion;
  }
  return priors;
}

std::vector<Camera> cameras_of(const Bundle& bundle, std::vector<Camera> given,
                               std::optional<CameraModel> model) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    Camera& camera = given[i];
    if (!camera.valid) continue;
    const Lens& lens = bundle.lenses[static_cast<std::size_t>(bundle.lens_of[i])];
    camera.cam_from_world = bundle.poses[i];
    camera.k << lens.focal.x() * camera.map.scale_x, 0, camera.map.network_x(lens.centre.x()), 0,
        lens.focal.y() * camera.map.scale_y, camera.map.network_y(lens.centre.y()), 0, 0, 1;
    camera.distortion = lens.distortion;
    camera.model = model.value_or(camera.model);
    camera.camera_id = bundle.lens_of[i];
  }
  return given;
}

}  // namespace vggt
