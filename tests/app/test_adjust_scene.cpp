#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <limits>
#include <opencv2/core.hpp>
#include <regex>
#include <string>

#include "app/adjust/adjust_scene.h"
#include "tests/support/adjusted_scene.h"

namespace {

using namespace vggt;
using namespace vggt::test;

TEST(AdjustScene, FindsCamerasFocalLengthAndDepth) {
  const Scene truth, scene = bent_scene();
  const std::vector<Camera> given = beside(truth.cameras);
  const Adjusted result = adjust(scene, given);
  ASSERT_TRUE(result.changed) << result.summary;
  const PoseErrors before = pose_errors(given, truth.cameras),
                   after = pose_errors(result.cameras, truth.cameras);
  EXPECT_LT(after.turn, 0.15 * before.turn);
  EXPECT_LT(after.turn, 0.3);
  EXPECT_LT(after.direction, 0.15 * before.direction);
  EXPECT_LT(after.direction, 1.5);
  for (const Camera& camera : result.cameras) {
    EXPECT_EQ(camera.model, CameraModel::simple_pinhole);
    EXPECT_NEAR(camera.k(0, 0) / 200, 1, 0.015);
    EXPECT_NEAR(camera.k(1, 1) / 200, 1, 0.015);
    EXPECT_EQ(camera.k(0, 0), result.cameras[0].k(0, 0));
  }
  EXPECT_EQ(result.cameras[0].cam_from_world.matrix(), given[0].cam_from_world.matrix());
  EXPECT_LT(depth_error(result.depth, truth.depth), 0.35 * depth_error(scene.depth, truth.depth));
}

TEST(AdjustScene, FindsAFocalLengthThatTheNetworkMissesByFar) {
  for (const double factor : {1.3, 2.4}) {
    const Scene scene = farther(Scene(), factor);
    const Adjusted result = adjust(scene, scene.cameras);
    ASSERT_TRUE(result.changed) << result.summary;
    for (const Camera& camera : result.cameras) EXPECT_NEAR(camera.k(0, 0), 200, 3) << factor;
  }
}

/// As of the great wall at 56 pixels, whose matches, wrong by half a pixel, liked 16,000 pixels instead of
/// 870.
TEST(AdjustScene, AFocalLengthOutOfReachStaysAsItWasGiven) {
  const Scene scene = farther(Scene(), 5);
  const Adjusted result = adjust(scene, scene.cameras);
  ASSERT_TRUE(result.changed) << result.summary;
  for (const Camera& camera : result.cameras) EXPECT_NEAR(camera.k(0, 0), 1000, 1e-6) << result.summary;
}

/// Of many frames each is compared with eight others. Which these are changes as the cameras move: the last
/// pass looks again for what the pass before it found, so that it has to compare the same ones.
TEST(AdjustScene, ManyFramesKeepTheirMatchesInTheLastPass) {
  const Scene scene(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, 0, 1, Eigen::Vector3d::Zero(), 70);
  const Adjusted result = adjust(scene, beside(scene.cameras));
  ASSERT_TRUE(result.changed) << result.summary;
  std::smatch pairs;
  ASSERT_TRUE(std::regex_search(result.summary, pairs, std::regex("in ([0-9]+) pairs")));
  EXPECT_GT(std::stoi(pairs[1]), 480) << result.summary;  // 402 if it chose anew
}

/// Where the network's depth is not believed, its maps must not hide what the last pass looks for again: 823
/// and 655 matches and 235 and 369 pixels if they did.
TEST(AdjustScene, WrongDepthHidesNoMatchesInTheLastPass) {
  for (const auto& [factor, power] : {std::pair(1.4, 2.5), {2.4, 2.0}}) {
    Scene scene = farther(Scene(), factor);
    for (std::vector<float>& depth : scene.depth) {
      for (float& value : depth) value = static_cast<float>(2.8 * std::pow(value / 2.8, power));
    }
    const Adjusted result = adjust(scene, scene.cameras);
    std::smatch matches;
    ASSERT_TRUE(std::regex_search(result.summary, matches, std::regex("to ([0-9]+) matches")));
    EXPECT_GT(std::stoi(matches[1]), 1400) << result.summary;
    EXPECT_NEAR(result.cameras[0].k(0, 0), 200, 3) << result.summary;
  }
}

/// Each frame's depth is averaged with what the others say of its pixels, seen through both lenses.
TEST(AdjustScene, RightDepthThroughADistortedLensStays) {
  const Scene scene(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, -0.3);
  AdjustOptions known;
  known.poses = known.intrinsics = Known::exactly;
  const Adjusted result = adjust(scene, scene.cameras, known);
  ASSERT_TRUE(result.changed) << result.summary;
  EXPECT_LT(depth_error(result.depth, scene.depth), 0.002);
}

TEST(AdjustScene, FindsADistortionThatTheImagesShow) {
  const Eigen::Vector2d center(kWidth / 2.0, kHeight / 2.0);
  const Scene truth(180, 0.06, center, -0.15);
  Scene scene = truth;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) bend(scene.depth[f], static_cast<double>(f));
  std::vector<Camera> given = beside(truth.cameras);
  for (Camera& camera : given) camera.distortion.setZero();
  const Adjusted found = adjust(scene, given);
  ASSERT_TRUE(found.changed) << found.summary;
  AdjustOptions pinhole;
  pinhole.model = CameraModel::simple_pinhole;
  const Adjusted plain = adjust(scene, given, pinhole);
  for (std::size_t f = 0; f < given.size(); ++f) {
    EXPECT_EQ(found.cameras[f].model, CameraModel::simple_radial);
    EXPECT_NEAR(found.cameras[f].distortion[0], -0.15, 0.03);
    EXPECT_EQ(found.cameras[f].distortion[1], 0);
    EXPECT_EQ(plain.cameras[f].model, CameraModel::simple_pinhole);
    EXPECT_FALSE(plain.cameras[f].is_distorted());
  }
  EXPECT_LT(pose_errors(found.cameras, truth.cameras).turn, 0.3);
  EXPECT_LT(pose_errors(found.cameras, truth.cameras).turn,
            0.7 * pose_errors(plain.cameras, truth.cameras).turn);
}

/// A pan of which the network sees too little, so that passes without distortion find matches in few pairs.
TEST(AdjustScene, FindsADistortionThatHidesMostMatches) {
  constexpr int kMany = 15;
  const Scene truth(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, -0.4, 1, Eigen::Vector3d::Zero(), kMany, 0.15,
                    0.02);
  Scene scene = truth;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) bend(scene.depth[f], static_cast<double>(f));
  for (Camera& camera : scene.cameras) {
    camera.distortion.setZero();
    Eigen::AngleAxisd turn(camera.cam_from_world.linear());
    turn.angle() *= 0.8;
    camera.cam_from_world.linear() = turn.toRotationMatrix();
  }
  const Adjusted found = adjust(scene, scene.cameras);
  ASSERT_TRUE(found.changed) << found.summary;
  EXPECT_GT(found.pairs.size(), kMany * (kMany - 1) / 2 - kMany) << found.summary;
  EXPECT_NEAR(found.cameras[0].k(0, 0), 200, 2);
  EXPECT_NEAR(found.cameras[0].distortion[0], -0.4, 0.02);
  EXPECT_LT(pose_errors(found.cameras, truth.cameras).turn, 0.3);
}

TEST(AdjustScene, FindsAnAspectThatTheImagesShow) {
  const Scene truth(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, 0, 1.03);
  const Adjusted found = adjust(truth, beside(truth.cameras));
  ASSERT_TRUE(found.changed) << found.summary;
  for (const Camera& camera : found.cameras) {
    EXPECT_EQ(camera.model, CameraModel::pinhole);
    EXPECT_NEAR(camera.k(1, 1) / camera.k(0, 0), 1.03, 0.004);
    EXPECT_FALSE(camera.is_distorted());
  }
  AdjustOptions square;
  square.model = CameraModel::simple_pinhole;
  const Adjusted plain = adjust(truth, beside(truth.cameras), square);
  EXPECT_EQ(plain.cameras[0].k(0, 0), plain.cameras[0].k(1, 1));
  EXPECT_LT(pose_errors(found.cameras, truth.cameras).turn,
            0.7 * pose_errors(plain.cameras, truth.cameras).turn);
}

TEST(AdjustScene, TracksAreWhereTheCamerasShowThem) {
  const Scene truth;
  const Adjusted result = adjust(truth, beside(truth.cameras));
  ASSERT_GT(result.tracks.size(), 50U);
  for (const Track& track : result.tracks) {
    ASSERT_GE(track.observations.size(), 3U);
    double sum = 0;
    int last = -1;
    for (const Observation& seen : track.observations) {
      ASSERT_GT(seen.frame, last);
      last = seen.frame;
      const Camera& camera = result.cameras[static_cast<std::size_t>(seen.frame)];
      const double error = (camera.project(camera.cam_from_world * track.point_in_world) - seen.pixel).norm();
      ASSERT_LT(error, 2);
      sum += error;
    }
    EXPECT_NEAR(track.error_px, sum / static_cast<double>(track.observations.size()), 1e-6);
    const int spread = *std::ranges::max_element(track.rgb) - *std::ranges::min_element(track.rgb);
    EXPECT_EQ(spread, 0);  // the frames are gray
  }
}

// Of four other frames, one in three anchors has a match that was held out: without these 43 % of the tracks
// are in all frames, with them 66 %.
TEST(AdjustScene, MatchesThatWereHeldOutCountInTheEnd) {
  const Scene truth;
  const Adjusted result = adjust(truth, beside(truth.cameras));
  const auto in_all_frames = std::ranges::count_if(
      result.tracks, [&](const Track& track) { return track.observations.size() == truth.cameras.size(); });
  EXPECT_GT(static_cast<double>(in_all_frames), 0.55 * static_cast<double>(result.tracks.size()));
}

// Of another texture, some frames look like nothing that the others show.
TEST(AdjustScene, TellsOfGroupsThatNoMatchesLink) {
  Scene scene;
  const Scene other(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, 0, 1, {50, 70, 90});
  EXPECT_TRUE(adjust(scene, beside(scene.cameras)).groups.empty());
  std::vector<std::vector<int>> groups(2);
  for (int f = 0; f < kFrames; ++f) {
    groups[f < kFrames / 2 ? 0 : 1].push_back(f);
    if (f >= kFrames / 2) scene.rgb[static_cast<std::size_t>(f)] = other.rgb[static_cast<std::size_t>(f)];
  }
  EXPECT_EQ(adjust(scene, beside(scene.cameras)).groups, groups);
}

// But for a corner of one of them.
TEST(AdjustScene, TellsOfGroupsThatAHandfulOfMatchesLinks) {
  Scene scene;
  const Scene other(180, 0.06, {kWidth / 2.0, kHeight / 2.0}, 0, 1, {50, 70, 90});
  std::vector<std::vector<int>> groups(2);
  for (int f = 0; f < kFrames; ++f) {
    groups[f < kFrames / 2 ? 0 : 1].push_back(f);
    if (f < kFrames / 2) continue;
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        if (f == kFrames / 2 && x < kWidth / 5 && y < kHeight / 4) continue;
        for (std::size_t c = 0; c < 3; ++c) {
          const std::size_t pixel = c * kPixels + static_cast<std::size_t>(y * kWidth + x);
          scene.rgb[static_cast<std::size_t>(f)][pixel] = other.rgb[static_cast<std::size_t>(f)][pixel];
        }
      }
    }
  }
  const Adjusted result = adjust(scene, beside(scene.cameras));
  EXPECT_EQ(result.groups, groups) << result.summary;
  EXPECT_TRUE(result.groups_are_linked);
}

TEST(AdjustScene, DoesNotDependOnThreads) {
  const Scene scene = bent_scene();
  const std::vector<Camera> given = beside(scene.cameras);
  const int threads = cv::getNumThreads();
  cv::setNumThreads(1);
  const Adjusted one = adjust(scene, given);
  cv::setNumThreads(4);
  const Adjusted four = adjust(scene, given);
  cv::setNumThreads(threads);
  EXPECT_EQ(one.depth, four.depth);
  for (std::size_t f = 0; f < given.size(); ++f) {
    EXPECT_EQ(one.cameras[f].cam_from_world.matrix(), four.cameras[f].cam_from_world.matrix());
  }
}

/// The same as cameras of images whose size is known.
std::vector<Camera> sized(std::vector<Camera> cameras) {
  for (Camera& camera : cameras) {
    camera.original_width = kWidth;
    camera.original_height = kHeight;
  }
  return cameras;
}

/// Square pixels, one focal length and the principal point in the middle, whatever the network said.
void expect_one_lens(const std::vector<Camera>& cameras, CameraModel model) {
  for (const Camera& camera : cameras) {
    if (!camera.valid) continue;
    const Eigen::Matrix3d k = camera.k_original();
    EXPECT_NEAR(k(0, 0), k(1, 1), 1e-9 * k(0, 0));
    EXPECT_NEAR(k(0, 0), cameras[0].k_original()(0, 0), 1e-9 * k(0, 0));
    EXPECT_NEAR(k(0, 2), (kWidth - 1) / 2.0, 1e-9);
    EXPECT_NEAR(k(1, 2), (kHeight - 1) / 2.0, 1e-9);
    EXPECT_EQ(camera.model, model);
    EXPECT_EQ(camera.camera_id, 0);
  }
}

TEST(AdjustScene, WithoutTexturePosesAndDepthStay) {
  const Scene scene(0);
  const Adjusted result = adjust(scene, sized(beside(scene.cameras)));
  EXPECT_FALSE(result.changed);
  EXPECT_NE(result.summary.find("too few matches"), std::string::npos) << result.summary;
  expect_one_lens(result.cameras, CameraModel::simple_pinhole);
  AdjustOptions radial;
  radial.model = CameraModel::radial;
  expect_one_lens(adjust(scene, sized(beside(scene.cameras)), radial).cameras, CameraModel::radial);
}

TEST(AdjustScene, FewerThanTwoCamerasAreNotAdjusted) {
  Scene scene;
  scene.cameras = sized(beside(scene.cameras));
  const auto summary = [&](const MatchInput& input, const std::vector<Camera>& cameras) {
    const Adjusted result = adjust(scene, input, cameras);
    EXPECT_FALSE(result.changed);
    EXPECT_EQ(result.cameras.size(), cameras.size());
    expect_one_lens(result.cameras, CameraModel::simple_pinhole);
    return result.summary;
  };
  MatchInput one = scene.input();
  one.frames.resize(1);
  EXPECT_EQ(summary(one, {scene.cameras[0]}), "not adjusted: one frame");
  for (std::size_t f = 1; f < scene.cameras.size(); ++f) scene.cameras[f].valid = false;
  EXPECT_EQ(summary(scene.input(), scene.cameras), "not adjusted: fewer than two frames have a camera");
  scene.cameras[0].valid = false;
  EXPECT_EQ(summary(scene.input(), scene.cameras), "not adjusted: fewer than two frames have a camera");
}

TEST(AdjustScene, ThePrincipalPointIsTheCameras) {
  const Eigen::Vector2d center(kWidth / 2.0 + 20, kHeight / 2.0 - 12);
  const Scene truth(180, 0.06, center);
  Scene scene = truth;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) bend(scene.depth[f], static_cast<double>(f));
  const std::vector<Camera> given = beside(truth.cameras);
  const Adjusted result = adjust(scene, given);
  ASSERT_TRUE(result.changed) << result.summary;
  const PoseErrors before = pose_errors(given, truth.cameras),
                   after = pose_errors(result.cameras, truth.cameras);
  EXPECT_LT(after.turn, 0.15 * before.turn);
  EXPECT_LT(after.direction, 0.15 * before.direction);
  for (const Camera& camera : result.cameras) {
    EXPECT_NEAR(camera.k(0, 0) / 200, 1, 0.015);
    EXPECT_EQ(camera.k(0, 2), center.x());
    EXPECT_EQ(camera.k(1, 2), center.y());
  }
  EXPECT_LT(depth_error(result.depth, truth.depth), 0.35 * depth_error(scene.depth, truth.depth));
}

// Photographs have square pixels, and their principal point in the middle: the network's focal lengths differ
// by 4 % of each other, and its principal point lies half a network pixel off.
TEST(AdjustScene, PixelsOfTheOriginalAreSquareAndThePrincipalPointIsItsMiddle) {
  const Eigen::Vector2d center((kWidth - 1) / 2.0, (kHeight - 1) / 2.0);
  const Scene truth(180, 0.06, center);
  Scene scene = truth;
  for (std::size_t f = 0; f < scene.depth.size(); ++f) bend(scene.depth[f], static_cast<double>(f));
  std::vector<Camera> given = beside(truth.cameras);
  for (Camera& camera : given) {
    camera.map = {0.5, 0.49, 0, 0};
    camera.original_width = 2 * kWidth;
    camera.original_height = 286;  // 140 / 0.49, to a pixel
    camera.k(0, 0) *= std::sqrt(1.04);
    camera.k(1, 1) *= 0.98 / std::sqrt(1.04);
    camera.k(0, 2) = kWidth / 2.0;
    camera.k(1, 2) = kHeight / 2.0;
  }
  MatchInput input = scene.input();
  for (MatchFrame& frame : input.frames) {
    frame.map = given[0].map;
    frame.original_width = given[0].original_width;
    frame.original_height = given[0].original_height;
  }
  const Adjusted result = adjust(scene, input, given);
  ASSERT_TRUE(result.changed) << result.summary;
  for (const Camera& camera : result.cameras) {
    EXPECT_EQ(camera.model, CameraModel::simple_pinhole);
    EXPECT_EQ(camera.camera_id, result.cameras[0].camera_id);
    const Eigen::Matrix3d k = camera.k_original();
    EXPECT_NEAR(k(0, 0) / k(1, 1), 1, 1e-12);
    EXPECT_NEAR(k(0, 2), (camera.original_width - 1) / 2.0, 1e-9);
    EXPECT_NEAR(k(1, 2), (camera.original_height - 1) / 2.0, 1e-9);
  }
}

TEST(AdjustScene, LeavesOutCamerasThatAreNotValid) {
  const Scene truth, scene = bent_scene();
  std::vector<Camera> given = beside(truth.cameras);
  given[0].valid = false;
  given[0].k.setConstant(std::numeric_limits<double>::quiet_NaN());
  given[0].cam_from_world.matrix().setConstant(std::numeric_limits<double>::quiet_NaN());
  const Adjusted result = adjust(scene, given);
  ASSERT_TRUE(result.changed);
  EXPECT_EQ(result.cameras[1].cam_from_world.matrix(), given[1].cam_from_world.matrix())
      << "the first valid camera stays";
  const std::vector<Camera> valid(result.cameras.begin() + 1, result.cameras.end()),
      expected(truth.cameras.begin() + 1, truth.cameras.end());
  EXPECT_LT(pose_errors(valid, expected).turn, 0.3);
  EXPECT_EQ(result.depth[0], scene.depth[0]);
}

TEST(AdjustScene, BadDepthIsNeitherUsedNorSpread) {
  Scene scene = bent_scene();
  const Scene truth;
  const float bad[] = {std::nanf(""), std::numeric_limits<float>::infinity(), 0, -1};
  for (std::size_t f = 0; f < scene.depth.size(); ++f) {
    for (std::size_t i = 0; i < kPixels; i += 97) scene.depth[f][i] = bad[(i / 97) % 4];
    for (int y = 40; y < 80; ++y) {  // whole patches, too
      std::fill_n(scene.depth[f].begin() + y * kWidth + 30, 36, bad[f % 4]);
    }
  }
  const Adjusted result = adjust(scene, beside(truth.cameras));
  ASSERT_TRUE(result.changed);
  EXPECT_LT(pose_errors(result.cameras, truth.cameras).turn, 0.4);
  for (std::size_t f = 0; f < scene.depth.size(); ++f) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      const bool was_bad = !(scene.depth[f][i] > 0 && std::isfinite(scene.depth[f][i]));
      ASSERT_TRUE(was_bad || (std::isfinite(result.depth[f][i]) && result.depth[f][i] > 0)) << i;
    }
  }
}

TEST(AdjustScene, PaddingIsNotMatched) {
  Scene scene = bent_scene();
  const Scene truth;
  MatchInput input = scene.input();
  // The right third is padding, the same in all frames: it would say that nothing moves.
  constexpr int kEnd = 130;
  for (auto& rgb : scene.rgb) {
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      if (i % kWidth >= kEnd)
        rgb[i] = static_cast<uint8_t>(255 * texture({0.02 * static_cast<double>(i % kWidth),
                                                     0.02 * static_cast<double>(i / kWidth), 1}));
    }
  }
  for (MatchFrame& frame : input.frames) frame.view.end_x = kEnd;
  const Adjusted result = adjust(scene, input, beside(truth.cameras));
  ASSERT_TRUE(result.changed);
  EXPECT_LT(pose_errors(result.cameras, truth.cameras).turn, 0.5);
}

TEST(AdjustScene, FramesOfOtherZoomKeepIt) {
  const Scene truth;
  std::vector<Camera> given = beside(truth.cameras);
  given[1].k.diagonal().head<2>() *= 1.6;  // as of another camera
  const Adjusted result = adjust(truth, given);
  EXPECT_TRUE(!result.changed || result.cameras[1].k(0, 0) > 1.3 * result.cameras[0].k(0, 0));
  EXPECT_EQ(result.cameras[2].k(0, 0), result.cameras[0].k(0, 0));
}

TEST(AdjustScene, ReportsProgress) {
  const Scene scene;
  int64_t last = -1, total = 0;
  int passes = 0;
  Events events;
  events.on_progress = [&](const std::string& stage, const std::string& unit, int64_t done, int64_t all) {
    const bool begins = stage != "adjustment, pass " + std::to_string(passes);
    if (begins) {
      EXPECT_EQ(last, passes > 0 ? total : -1);  // the one before was whole
      EXPECT_EQ(stage, "adjustment, pass " + std::to_string(++passes));
    } else {
      EXPECT_GE(done, last);
      EXPECT_EQ(all, total);
    }
    EXPECT_EQ(unit, "pairs");
    last = done, total = all;
  };
  adjust(scene, scene.cameras, {}, events);
  EXPECT_GT(total, 0);
  EXPECT_EQ(last, total);
  EXPECT_GT(passes, 1);
}

TEST(AdjustScene, StopsWhenAsked) {
  const Scene scene;
  for (const int after : {0, 3, 8}) {
    int asked = 0;
    Events events;
    events.stop = [&] { return asked++ >= after; };
    EXPECT_THROW(adjust(scene, scene.cameras, {}, events), Stopped) << after;
    EXPECT_EQ(asked, after + 1);
  }
}

}  // namespace
