// The lenses that an adjustment begins with, and the cameras that come of them.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "app/adjust/bundle_setup.h"

namespace vggt {
namespace {

Camera camera_of(CameraModel model, double fx, double fy, Eigen::Vector2d distortion, int id) {
  Camera camera;
  camera.k << fx, 0, 319.5, 0, fy, 239.5, 0, 0, 1;
  camera.distortion = distortion;
  camera.model = model;
  camera.camera_id = id;
  camera.width = camera.original_width = 640;
  camera.height = camera.original_height = 480;
  return camera;
}

/// A camera of each model, known beforehand.
std::vector<Camera> one_of_each() {
  return {camera_of(CameraModel::pinhole, 500, 520, {0, 0}, 0),
          camera_of(CameraModel::simple_radial, 510, 510, {-.1, 0}, 1),
          camera_of(CameraModel::radial, 530, 530, {-.2, .05}, 2),
          camera_of(CameraModel::simple_pinhole, 540, 540, {0, 0}, 3)};
}

Bundle bundle_of_all(const AdjustOptions& options) {
  MatchInput input;
  input.frames.resize(4);
  return bundle_of(input, one_of_each(), options);
}

TEST(BundleSetup, KnownLensesKeepTheirModels) {
  const std::vector<Camera> given = one_of_each();
  for (const Known known : {Known::exactly, Known::nearly}) {
    AdjustOptions options;
    options.intrinsics = known;
    const Bundle bundle = bundle_of_all(options);
    const std::vector<Camera> cameras = cameras_of(bundle, given, std::nullopt);
    for (std::size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(cameras[i].model, given[i].model) << i;
      EXPECT_LT((cameras[i].k - given[i].k).norm(), 1e-9) << i;
      EXPECT_EQ(cameras[i].distortion, given[i].distortion) << i;
      const bool nearly = known == Known::nearly;
      EXPECT_EQ(bundle.lens_free[i].focal, nearly) << i;
      EXPECT_EQ(bundle.lens_free[i].aspect, nearly && i == 0) << i;
      EXPECT_EQ(bundle.lens_free[i].k1, nearly && (i == 1 || i == 2)) << i;
      EXPECT_EQ(bundle.lens_free[i].k2, nearly && i == 2) << i;
    }
  }
}

TEST(BundleSetup, AModelThatIsAskedForLeavesNothingThatItHasNoParametersFor) {
  const std::vector<Camera> given = one_of_each();
  AdjustOptions options;
  options.intrinsics = Known::nearly;
  for (const CameraModel model :
       {CameraModel::simple_pinhole, CameraModel::pinhole, CameraModel::simple_radial, CameraModel::radial}) {
    options.model = model;
    const std::vector<Camera> cameras = cameras_of(bundle_of_all(options), given, model);
    const bool is_pinhole = model == CameraModel::pinhole, has_k2 = model == CameraModel::radial,
               has_k1 = has_k2 || model == CameraModel::simple_radial;
    for (std::size_t i = 0; i < given.size(); ++i) {
      EXPECT_EQ(cameras[i].model, model);
      EXPECT_NEAR(cameras[i].k(0, 0) * cameras[i].k(1, 1), given[i].k(0, 0) * given[i].k(1, 1), 1e-6);
      EXPECT_EQ(cameras[i].k(0, 0) != cameras[i].k(1, 1), is_pinhole && i == 0) << i;
      EXPECT_EQ(cameras[i].distortion[0], has_k1 ? given[i].distortion[0] : 0) << i;
      EXPECT_EQ(cameras[i].distortion[1], has_k2 ? given[i].distortion[1] : 0) << i;
    }
  }
}

}  // namespace
}  // namespace vggt
