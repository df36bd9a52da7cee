// Adjustments of which cameras are known: their intrinsics, their poses, or both.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/known_poses.h"
#include "app/scene/world_move.h"
#include "tests/support/adjusted_scene.h"
#include "tests/support/media.h"

namespace {

using namespace vggt;
using namespace vggt::test;

TEST(AdjustKnown, KnownCamerasStayAndDepthFollows) {
  const Scene truth, scene = bent_scene();
  AdjustOptions known;
  known.intrinsics = known.poses = Known::exactly;
  const Adjusted result = adjust(scene, truth.cameras, known);
  ASSERT_TRUE(result.changed) << result.summary;
  for (std::size_t f = 0; f < truth.cameras.size(); ++f) {
    EXPECT_EQ(result.cameras[f].cam_from_world.matrix(), truth.cameras[f].cam_from_world.matrix());
    EXPECT_LT((result.cameras[f].k - truth.cameras[f].k).norm(), 1e-9);
  }
  EXPECT_LT(depth_error(result.depth, truth.depth), 0.35 * depth_error(scene.depth, truth.depth));
}

/// The network's poses and depth belong to the focal length that it took, which need not be the known one.
TEST(AdjustKnown, KnownFocalLengthsMayBeFarFromTheNetworks) {
  const Scene truth;
  for (const double factor : {0.6, 1.9}) {
    const Scene scene = farther(truth, factor);
    std::vector<Camera> given = scene.cameras;
    MatchInput input = scene.input();
    for (std::size_t f = 0; f < given.size(); ++f) {
      input.frames[f].guessed_focal = scene.cameras[f].k(0, 0);
      given[f].k = truth.cameras[f].k;
    }
    AdjustOptions known;
    known.intrinsics = Known::exactly;
    const Adjusted result = adjust(scene, input, given, known);
    ASSERT_TRUE(result.changed) << result.summary;
    for (const Camera& camera : result.cameras) EXPECT_NEAR(camera.k(0, 0), truth.cameras[0].k(0, 0), 1e-9);
    EXPECT_LT(pose_errors(result.cameras, truth.cameras).turn, 0.05) << factor << ": " << result.summary;
  }
}

/// Known poses may be in any unit, as of a small thing in metres.
TEST(AdjustKnown, TheUnitOfKnownPosesMakesNoDifference) {
  const Scene truth;
  AdjustOptions known;
  known.poses = Known::exactly;
  const auto adjusted = [&](double unit) {
    Scene scene = bent_scene();
    std::vector<Camera> cameras = truth.cameras;
    for (Camera& camera : cameras) {
      camera.cam_from_world.translation() *= unit;
      camera.k.topLeftCorner<2, 2>() *= 1.03;
    }
    for (std::vector<float>& depth : scene.depth) {
      for (float& value : depth) value *= static_cast<float>(unit);
    }
    return adjust(scene, cameras, known);
  };
  const Adjusted usual = adjusted(1);
  ASSERT_TRUE(usual.changed) << usual.summary;
  for (const double unit : {1.0 / 1024, 1024.0}) {
    const Adjusted other = adjusted(unit);
    ASSERT_TRUE(other.changed) << other.summary;
    EXPECT_NEAR(other.cameras[0].k(0, 0), usual.cameras[0].k(0, 0), 1e-6) << unit;
    EXPECT_EQ(other.tracks.size(), usual.tracks.size()) << unit;
    EXPECT_NEAR(other.depth[1][kPixels / 2] / unit, static_cast<double>(usual.depth[1][kPixels / 2]), 1e-5);
  }
}

/// Depth of another scale pulls at poses that are free to follow, and a far origin makes small turns long
/// ways.
TEST(AdjustKnown, PosesThatAreNearlyRightKeepTheirWorldAndScale) {
  const Scene truth;
  Scene scene = bent_scene();
  for (std::vector<float>& depth : scene.depth) {
    for (float& value : depth) value *= 0.93F;
  }
  AdjustOptions nearly;
  nearly.poses = Known::nearly;
  for (const Eigen::Vector3d& origin :
       {Eigen::Vector3d(0, 0, 0), Eigen::Vector3d(100, -60, 3), Eigen::Vector3d(5e5, 4e6, 100)}) {
    const Eigen::Affine3d far(Eigen::Translation3d{origin});
    std::vector<Camera> given = truth.cameras, turned = truth.cameras;
    for (std::size_t f = 0; f < turned.size(); ++f) {
      const Eigen::Vector3d axis =
          Eigen::Vector3d(f % 2 == 0 ? 1 : -1, f % 3 == 0 ? 1 : -1, 0.5).normalized();
      turned[f].cam_from_world.prerotate(Eigen::AngleAxisd(0.004, axis));
    }
    move_cameras(far, given);
    move_cameras(far, turned);
    const Adjusted result = adjust(scene, turned, nearly);
    ASSERT_TRUE(result.changed) << result.summary;
    EXPECT_LT(pose_errors(result.cameras, given).turn, 0.05) << origin;
    const auto way = [](const std::vector<Camera>& cameras) {
      return (cameras.back().center() - cameras.front().center()).norm();
    };
    EXPECT_NEAR(way(result.cameras) / way(given), 1, 0.01) << origin;
    EXPECT_LT((result.cameras[2].center() - given[2].center()).norm(), 0.02) << origin;
    EXPECT_NEAR(result.depth[1][kPixels / 2] / truth.depth[1][kPixels / 2], 1, 0.02) << origin;
  }
}

/// The scene with the poses that the network saw.
MatchInput with_network_poses(const Scene& scene, const Scene& truth) {
  MatchInput input = scene.input();
  const std::vector<Camera> network = beside(truth.cameras);
  for (std::size_t f = 0; f < network.size(); ++f) input.frames[f].guessed_pose = network[f].cam_from_world;
  return input;
}

/// Matching from them finds what joins frames whose errors agree, and little else.
TEST(AdjustKnown, AFewWrongPosesAreToldFromTheOthers) {
  std::vector<Camera> adjusted;
  for (int i = 0; i < 8; ++i) {
    Camera camera;
    camera.valid = true;
    camera.cam_from_world = Eigen::AngleAxisd(0.1 * i, Eigen::Vector3d::UnitY()) *
                            Eigen::Translation3d(i, 0.3 * (i % 3), 0.1 * i * i);
    adjusted.push_back(camera);
  }
  std::vector<Camera> given = adjusted;
  EXPECT_EQ(beside_given(adjusted, given)->wrong, std::vector<int>());
  given[3] = given[6];
  const std::optional<BesideGiven> one = beside_given(adjusted, given);
  EXPECT_EQ(one->wrong, std::vector<int>{3});
  EXPECT_TRUE(one->agrees());
  given[0] = given[4];
  EXPECT_EQ(beside_given(adjusted, given)->wrong, (std::vector<int>{0, 3}));
  std::swap(given[1], given[7]);  // half of them: which are wrong cannot be told
  const std::optional<BesideGiven> half = beside_given(adjusted, given);
  EXPECT_EQ(half->wrong, std::vector<int>());
  EXPECT_FALSE(half->agrees());
}

TEST(AdjustKnown, PosesThatWouldTearTheSceneAreNotBegunFrom) {
  const Scene truth, scene = bent_scene();
  MatchInput input = with_network_poses(scene, truth);
  std::vector<Camera> torn = truth.cameras;
  for (std::size_t f = torn.size() / 2; f < torn.size(); ++f)
    torn[f].cam_from_world.prerotate(Eigen::AngleAxisd(0.1, Eigen::Vector3d(1, -1, 0.3).normalized()));
  AdjustOptions nearly;
  nearly.poses = Known::nearly;
  // Of a fifth of the images too, where matches are few.
  for (const auto& [part, most] : {std::pair<std::size_t, double>(1, 0.05), {5, 0.3}}) {
    input.read_mask = [part = part](std::size_t, std::span<uint8_t> mask) {
      for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % kWidth < kWidth / part ? 1 : 0;
    };
    const Adjusted result = adjust(scene, input, torn, nearly);
    ASSERT_TRUE(result.changed) << result.summary;
    EXPECT_LT(pose_errors(result.cameras, truth.cameras).turn, most) << part << ": " << result.summary;
  }
  // Where nothing else is known to begin from, the two parts are told of.
  const Adjusted alone = adjust(scene, torn, nearly);
  EXPECT_GT(pose_errors(alone.cameras, truth.cameras).turn, 0.5) << alone.summary;
  EXPECT_EQ(alone.groups.size(), 2U);
}

TEST(AdjustKnown, PosesToRefineThatDoNotFitAreLeftOut) {
  const Scene truth, scene = bent_scene();
  const MatchInput input = with_network_poses(scene, truth);
  AdjustOptions nearly;
  nearly.poses = Known::nearly;
  const std::size_t count = truth.cameras.size();
  const auto given = [&](const Eigen::Vector3d& place, bool in_one_place) {
    std::vector<Camera> cameras = truth.cameras;
    for (std::size_t f = 0; f < count; ++f) {
      Eigen::Isometry3d& pose = cameras[f].cam_from_world;
      if (in_one_place) {  // turned as they are
        pose.translation() = -(pose.linear() * place);
      } else {
        pose = truth.cameras[(f + 2) % count].cam_from_world * Eigen::Translation3d(-place);
      }
    }
    return cameras;
  };
  for (const Eigen::Vector3d& place : {Eigen::Vector3d(0, 0, 0), Eigen::Vector3d(100, -60, 3)}) {
    for (const bool in_one_place : {false, true}) {
      std::string warnings;
      Events events;
      events.on_message = [&](Message kind, const std::string& text) {
        if (kind == Message::warning) warnings += text;
      };
      const Adjusted result = adjust(scene, input, given(place, in_one_place), nearly, events);
      ASSERT_TRUE(result.changed) << result.summary;
      EXPECT_TRUE(result.leaves_poses_out);
      EXPECT_LT(pose_errors(result.cameras, truth.cameras).turn, 0.1) << result.summary;
      EXPECT_LT(result.cameras[2].center().norm(), 20) << "in the network's world";
      EXPECT_NE(warnings.find("the given poses do not fit the images: "), std::string::npos) << warnings;
      EXPECT_EQ(warnings.find("all lie in one place") != std::string::npos, in_one_place) << warnings;
      EXPECT_NE(result.summary.find("this leaves them out"), std::string::npos) << result.summary;
    }
  }
}

/// The scene as a network sees it whose world is an eighth of the given one, and what it says of the poses.
struct SmallWorld {
  SmallWorld() {
    for (std::vector<float>& depth : scene.depth) {
      for (float& value : depth) value /= 8;
    }
    input = scene.input();
    const std::vector<Camera> network = beside(truth.cameras);
    for (std::size_t f = 0; f < truth.cameras.size(); ++f) {
      input.frames[f].guessed_pose = network[f].cam_from_world;
      input.frames[f].guessed_pose->translation() /= 8;
    }
    known.intrinsics = known.poses = Known::exactly;
    events.on_message = [this](Message kind, const std::string& text) {
      if (kind == Message::warning) warnings += text;
    };
  }

  Scene truth, scene = bent_scene();
  MatchInput input;
  AdjustOptions known;
  Events events;
  std::string warnings;
};

/// Where the network's own poses are wrong, nothing says how its depth is to be scaled into the given world.
TEST(AdjustKnown, DepthThatIsFarOffInTheGivenWorldIsFoundFromTheNetworksPoses) {
  SmallWorld world;
  MatchInput unknown = world.input;
  unknown.frames[2].guessed_pose.reset();
  EXPECT_FALSE(adjust(world.scene, unknown, world.truth.cameras, world.known).changed);
  const Adjusted result = adjust(world.scene, world.input, world.truth.cameras, world.known, world.events);
  ASSERT_TRUE(result.changed) << result.summary;
  EXPECT_EQ(world.warnings, "");
  for (std::size_t f = 0; f < world.truth.cameras.size(); ++f)
    EXPECT_EQ(result.cameras[f].cam_from_world.matrix(), world.truth.cameras[f].cam_from_world.matrix());
  EXPECT_GT(result.tracks.size(), 100U);
  double ratio = 0;
  for (std::size_t i = 0; i < kPixels; ++i)
    ratio += result.depth[1][i] / world.truth.depth[1][i] / static_cast<double>(kPixels);
  EXPECT_NEAR(ratio, 1, 0.02);
  EXPECT_LT(depth_error(result.depth, world.truth.depth),
            0.5 * depth_error(world.scene.depth, world.truth.depth));
}

TEST(AdjustKnown, ThatIsTheSameWhereDepthLiesInFiles) {
  SmallWorld memory, files;
  const TemporaryFolder folder;
  files.input.space = std::make_shared<HostSpace>(HostStorage{0, folder.path()});
  const Adjusted one = adjust(memory.scene, memory.input, memory.truth.cameras, memory.known),
                 other = adjust(files.scene, files.input, files.truth.cameras, files.known);
  ASSERT_TRUE(one.changed) << one.summary;
  EXPECT_EQ(other.summary, one.summary);
  EXPECT_EQ(other.depth, one.depth);
}

TEST(AdjustKnown, FocalLengthsThatAreRefinedMayTurnOutDistorted) {
  const Scene truth(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, -0.15);
  std::vector<Camera> given = beside(truth.cameras);
  for (std::size_t f = 0; f < given.size(); ++f) {
    given[f].k = truth.cameras[f].k;
    given[f].distortion.setZero();
    given[f].model = CameraModel::simple_pinhole;
    given[f].camera_id = 0;
  }
  AdjustOptions options;
  options.intrinsics = Known::nearly;
  const Adjusted held = adjust(truth, given, options);
  EXPECT_EQ(held.cameras[0].model, CameraModel::simple_pinhole) << held.summary;
  options.may_distort = true;
  const Adjusted found = adjust(truth, given, options);
  ASSERT_TRUE(found.changed) << found.summary;
  EXPECT_EQ(found.cameras[0].model, CameraModel::simple_radial) << found.summary;
  EXPECT_NEAR(found.cameras[0].distortion[0], -0.15, 0.03);
  EXPECT_LT(pose_errors(found.cameras, truth.cameras).turn,
            0.7 * pose_errors(held.cameras, truth.cameras).turn);
}

TEST(AdjustKnown, PosesThatLeaveTheMatchesFarOffAreToldOf) {
  const Scene truth;
  std::vector<Camera> noisy = truth.cameras;
  for (std::size_t f = 0; f < noisy.size(); ++f) {
    const Eigen::AngleAxisd turn(0.05 * static_cast<double>(f), Eigen::Vector3d::UnitZ());
    noisy[f].cam_from_world = turn * noisy[f].cam_from_world;
  }
  std::string told;
  Events events;
  events.on_message = [&](Message kind, const std::string& text) {
    if (kind == Message::warning) told += text;
  };
  AdjustOptions options;
  for (const Known known : {Known::exactly, Known::nearly}) {
    options.poses = known;
    for (const std::vector<Camera>* cameras : {&truth.cameras, &std::as_const(noisy)}) {
      told.clear();
      const Adjusted result = adjust(truth, *cameras, options, events);
      const bool is_told = told.find("--refine poses") != std::string::npos;
      EXPECT_EQ(is_told, known == Known::exactly && cameras == &noisy) << result.summary << told;
    }
  }
}

/// A wrong lens may leave the matches nearly as near, as poses and depths make up for it.
TEST(AdjustKnown, LensesThatTheMatchesShowOtherwiseAreToldOf) {
  const Scene truth, bent(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, -0.15),
      tall(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, 0, 1.1);
  std::string told;
  Events events;
  events.on_message = [&](Message kind, const std::string& text) {
    if (kind == Message::warning) told += text;
  };
  AdjustOptions options;
  options.intrinsics = Known::exactly;
  const auto warnings = [&](const Scene& scene, double factor, double k1, double aspect = 1) {
    std::vector<Camera> given = beside(scene.cameras);
    for (Camera& camera : given) {
      camera.k = scene.cameras[0].k;
      camera.k(0, 0) *= factor;
      camera.k(1, 1) *= factor * aspect;
      camera.distortion[0] = k1;
      camera.camera_id = 0;
    }
    told.clear();
    const Adjusted result = adjust(scene, given, options, events);
    EXPECT_TRUE(result.changed) << result.summary;
    EXPECT_EQ(result.cameras[0].k, given[0].k);
    EXPECT_EQ(result.cameras[0].distortion, given[0].distortion);
    return told;
  };
  EXPECT_EQ(warnings(truth, 1, 0), "");
  EXPECT_EQ(warnings(bent, 1, -0.15), "");
  const std::string shorter = warnings(truth, 0.9, 0), unbent = warnings(bent, 1, 0),
                    stretched = warnings(tall, 1, 0, 1 / 1.1);
  EXPECT_NE(shorter.find(" instead of 180.0 and 180.0 pixels"), std::string::npos) << shorter;
  EXPECT_NE(unbent.find("k1 -0.1"), std::string::npos) << unbent;
  EXPECT_NE(unbent.find("(k1 "), std::string::npos) << unbent;
  EXPECT_NE(stretched.find(" instead of 200.0 and 200.0 pixels"), std::string::npos) << stretched;
  for (const std::string& warning : {shorter, unbent, stretched})
    EXPECT_NE(warning.find("--refine intrinsics starts from them"), std::string::npos) << warning;
}

TEST(AdjustKnown, PosesInOnePlaceAreToldOfWhereTheImagesMove) {
  SmallWorld world;
  std::vector<Camera> same = world.truth.cameras;
  for (Camera& camera : same) camera.cam_from_world = same[0].cam_from_world;
  const Adjusted result = adjust(world.scene, world.input, same, world.known, world.events);
  EXPECT_FALSE(result.changed) << result.summary;
  EXPECT_NE(world.warnings.find("the given poses do not fit the images: all lie in one place"),
            std::string::npos)
      << world.warnings;
  EXPECT_EQ(result.depth, world.scene.depth);
}

TEST(AdjustKnown, PosesThatContradictTheImagesAreToldOf) {
  SmallWorld world;
  std::vector<Camera> wrong = world.truth.cameras;
  for (Camera& camera : wrong) camera.cam_from_world = camera.cam_from_world.inverse();
  std::swap(wrong[0].cam_from_world, wrong[3].cam_from_world);
  const Adjusted result = adjust(world.scene, world.input, wrong, world.known, world.events);
  EXPECT_FALSE(result.changed) << result.summary;
  EXPECT_NE(world.warnings.find("the given poses do not fit the images: cameras adjusted to "),
            std::string::npos)
      << world.warnings;
  EXPECT_EQ(world.warnings.find("--refine"), std::string::npos) << world.warnings;
  EXPECT_EQ(result.depth, world.scene.depth);
}

}  // namespace
