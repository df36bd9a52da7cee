#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/camera_head.h"
#include "model/refine_poses.h"
#include "model/vggt.h"
#include "tests/golden.h"

namespace {

using vggt::camera_matrices;
using vggt::refine_poses;

constexpr int64_t kFrames = 3, kHeight = 56, kWidth = 70;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor rotation_of(const at::Tensor& pose) {  // [F,3,3]
  return camera_matrices(pose, kHeight, kWidth).extrinsic.narrow(2, 0, 3);
}

/// Radians between the rotations of each frame, [F].
at::Tensor turn_between(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor trace = (rotation_of(a) * rotation_of(b)).sum({1, 2});
  return at::acos(((trace - 1) / 2).clamp(-1, 1));
}

/// Cameras, and the points that they see at each pixel.
struct Truth {
  Truth() {
    at::manual_seed(3);
    const at::Tensor t = at::randn({kFrames, 3}, at::kDouble), fov = at::full({kFrames, 1}, 0.8, at::kDouble);
    at::Tensor q = at::randn({kFrames, 4}, at::kDouble);
    q = q / q.norm(2, {1}, true);
    pose = at::cat({t, q, fov, 1.25 * fov}, 1);
    const auto matrices = camera_matrices(pose, kHeight, kWidth);
    depth = 1 + at::rand({kFrames, kHeight, kWidth}, at::kDouble);
    points = vggt::unproject(depth, matrices.extrinsic, matrices.intrinsic);
    confidence = 1 + at::rand({kFrames, kHeight, kWidth}, at::kDouble);
  }
  at::Tensor pose, depth, points, confidence;
};

/// The truth, some hundredths beside it; quaternions of another length and sign.
at::Tensor beside(const at::Tensor& pose) {
  at::Tensor head = pose.clone();
  head.narrow(1, 0, 7).add_(0.03 * at::randn({kFrames, 7}, at::kDouble));
  head.narrow(1, 3, 4).mul_(-1.3);
  return head;
}

/// Of the head's error 0.6 are left, since the fit has none.
void expect_refined(const at::Tensor& refined, const at::Tensor& head, const at::Tensor& pose, double limit) {
  const at::Tensor turn = turn_between(refined, pose), turn_before = turn_between(head, pose);
  EXPECT_LE((turn - 0.6 * turn_before).abs().max().item<double>(), limit);
  const at::Tensor shift = refined.narrow(1, 0, 3) - pose.narrow(1, 0, 3),
                   shift_before = head.narrow(1, 0, 3) - pose.narrow(1, 0, 3);
  EXPECT_LE((shift - 0.6 * shift_before).abs().max().item<double>(), limit);
  EXPECT_TRUE(at::equal(refined.narrow(1, 7, 2), pose.narrow(1, 7, 2)));
  EXPECT_TRUE(at::allclose(refined.narrow(1, 3, 4).norm(2, {1}), at::ones({kFrames}, at::kDouble)));
}

TEST(RefinePoses, MeetTheCameraThatSeesThePoints) {
  const Truth truth;
  const at::Tensor head = beside(truth.pose);
  expect_refined(refine_poses(head, truth.points, truth.confidence), head, truth.pose, 1e-6);
}

TEST(RefinePoses, WrongPointsCountLittle) {
  const Truth truth;
  const at::Tensor head = beside(truth.pose);
  at::Tensor points = truth.points.clone(), confidence = truth.confidence.clone();
  points.narrow(2, 0, 20) += at::randn({kFrames, kHeight, 20, 3}, at::kDouble);
  confidence.narrow(2, 0, 20).fill_(1);  // it knows
  points.narrow(1, 0, 4) += 0.5;         // it does not
  points.narrow(1, 8, 1).fill_(std::nan(""));
  points.narrow(1, 10, 1).fill_(kInfinity);
  confidence.narrow(1, 12, 1).fill_(std::nan(""));
  confidence.narrow(1, 14, 1).fill_(kInfinity);
  points.narrow(1, 16, 1).narrow(2, 30, 1) += 0.1;
  confidence.narrow(1, 16, 1).narrow(2, 30, 1).fill_(1e6);  // one pixel, all too sure
  expect_refined(refine_poses(head, points, confidence), head, truth.pose, 2e-3);
}

TEST(RefinePoses, WithoutAFitTheHeadsNumbersStay) {
  const Truth truth;
  const at::Tensor head = beside(truth.pose), none = at::full_like(truth.points, std::nan(""));
  EXPECT_TRUE(at::equal(refine_poses(head, none, truth.confidence), head));
  EXPECT_TRUE(at::equal(refine_poses(head, at::zeros_like(truth.points), truth.confidence), head));
  EXPECT_TRUE(at::equal(refine_poses(head, -truth.points, truth.confidence), head)) << "far from the head's";
  for (const double scale : {0.01, 1.0, 100.0}) {
    const at::Tensor random = scale * at::randn_like(truth.points);
    EXPECT_TRUE(at::equal(refine_poses(head, random, truth.confidence), head)) << scale;
  }
  at::Tensor few = -truth.points;  // behind the camera but for some
  few.narrow(1, 20, 2).copy_(truth.points.narrow(1, 20, 2));
  EXPECT_TRUE(at::equal(refine_poses(head, few, truth.confidence), head));
  at::Tensor shifted = truth.points + 2;  // another place, seen from there as the true points are from here
  EXPECT_TRUE(at::equal(refine_poses(head, shifted, truth.confidence), head));
  at::Tensor blind = head.clone();
  blind.narrow(1, 7, 2).zero_();
  blind.narrow(0, 1, 1).narrow(1, 3, 4).zero_();
  EXPECT_TRUE(at::equal(refine_poses(blind, truth.points, truth.confidence), blind));
  const at::Tensor tiny = truth.points.narrow(1, 0, 1).narrow(2, 0, 2);  // two pixels
  EXPECT_TRUE(at::equal(refine_poses(head, tiny, truth.confidence.narrow(1, 0, 1).narrow(2, 0, 2)), head));
  EXPECT_EQ(refine_poses(head.narrow(0, 0, 0), truth.points.narrow(0, 0, 0), truth.confidence.narrow(0, 0, 0))
                .size(0),
            0);
}

/// A patterned floor and a wall behind it, seen from three places side by side: [3,3,168,224].
at::Tensor corridor() {
  const at::Tensor y = (at::arange(168, at::kFloat).view({168, 1}) - 84) / 160,
                   x = (at::arange(224, at::kFloat).view({1, 224}) - 112) / 160;
  const at::Tensor z = at::where(y > 0.25, 1 / y.clamp_min(0.1), at::full({}, 4.0f)).expand({168, 224});
  std::vector<at::Tensor> images;
  for (int i = 0; i < 3; ++i) {
    const at::Tensor across = x * z + 0.3 * i, down = y * z;
    const auto pattern = [&](double a, double b, double c) {
      const at::Tensor tile = ((across * a).floor() + (down * b).floor() + (z * c).floor()).remainder(2);
      return 0.2 + 0.4 * tile + 0.2 * (0.5 + 0.5 * at::sin(7 * a * across + 5 * b * down + 6 * c * z));
    };
    images.push_back(at::stack({pattern(2, 2, 2), pattern(1.5, 2.5, 1.2), pattern(3, 1, 2.5)}));
  }
  return at::stack(images);
}

/// What the model that ships gives for three frames, in the order in which it comes.
struct Network {
  explicit Network(bool refine) {
    const vggt::WeightFile file = vggt::WeightFile::open(VGGT_SOURCE_DIR "/weights/vggt-small.ts");
    const vggt::Config config = vggt::read_config(file.config_json(), vggt::testing::source_of(file).shapes);
    vggt::Vggt model(config, vggt::testing::source_of(file),
                     {.heads = {.camera = true, .depth = true, .points = true},
                      .refine_poses = refine,
                      .frames_per_chunk = 2});
    vggt::Sink sink;
    sink.cameras = [&](const vggt::CameraPrediction& p) {
      order += "c";
      poses.push_back(p.pose_enc);
      EXPECT_TRUE(at::allclose(p.extrinsic.select(2, 3), p.pose_enc.narrow(1, 0, 3)));
    };
    sink.depth = [&](const vggt::DensePrediction&) { order += "d"; };
    sink.points = [&](const vggt::DensePrediction& p) {
      order += "p";
      points.push_back(p.world_points);
      confidence.push_back(p.world_points_conf);
    };
    model.run(vggt::testing::provide(corridor()), {}, sink);
  }
  std::string order;
  std::vector<at::Tensor> poses, points, confidence;
};

TEST(RefinePoses, TheNetworkGivesThemAfterTheHeads) {
  const Network plain(false), refined(true);
  EXPECT_EQ(plain.order, "cddpp");
  ASSERT_EQ(refined.order, "cppcdd");
  EXPECT_TRUE(at::equal(refined.poses[0], plain.poses[0]));
  const at::Tensor expected = refine_poses(plain.poses[0], at::cat(plain.points), at::cat(plain.confidence));
  EXPECT_TRUE(at::equal(refined.poses[1], expected));
  EXPECT_FALSE(at::allclose(refined.poses[1], plain.poses[0], 0, 1e-4));
}

TEST(RefinePoses, RefusesOtherShapes) {
  const Truth truth;
  EXPECT_THROW(refine_poses(truth.pose.narrow(0, 0, 2), truth.points, truth.confidence), c10::Error);
  EXPECT_THROW(refine_poses(truth.pose, truth.depth, truth.confidence), c10::Error);
}

}  // namespace
