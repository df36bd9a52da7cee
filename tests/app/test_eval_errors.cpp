// How far depth, fields of view and clouds are from true ones, and which frames belong together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "app/eval/cloud_error.h"
#include "app/eval/depth_error.h"
#include "app/eval/fov_error.h"
#include "app/scene/frame_match.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

DepthError error_of(const DepthMap& result, const DepthMap& truth, double max_depth = 60) {
  return depth_error({{&result, &truth}}, max_depth);
}

TEST(DepthError, CountsTheTruthThatIsValid) {
  const float nan = std::nanf("");
  // Valid: 1, 2, 4, 10. Result medians (2+3)/2, true (2+4)/2: scale 1.2, so 1.2, 2.4, 3.6, 12.
  const DepthMap truth{"", 4, 2, {1, 2, 4, 10, 0, 60, nan, -1}};
  const DepthMap result{"", 4, 2, {1, 2, 3, 10, 7, 8, 9, 10}};
  const DepthError error = error_of(result, truth);
  EXPECT_NEAR(error.scale, 1.2, 1e-12);
  EXPECT_NEAR(error.abs_rel, (0.2 + 0.2 + 0.1 + 0.2) / 4, 1e-9);
  EXPECT_EQ(error.delta_1, 1);
  EXPECT_EQ(error.coverage, 1);
  EXPECT_NEAR(error_of(result, truth, 5).scale, 1, 1e-12);          // of 1, 2, 4 against 1, 2, 3
  EXPECT_NEAR(error_of(result, truth, 5).delta_1, 2.0 / 3, 1e-12);  // 4/3 is too far
}

TEST(FovError, IsInDegreesWithoutSign) {
  const double degree = std::numbers::pi / 180;
  const FovError error =
      fov_error({{50 * degree, 60 * degree}, {61 * degree, 60 * degree}, {60 * degree, 60 * degree}});
  EXPECT_EQ(error.frames, 3U);
  EXPECT_NEAR(error.median_deg, 1, 1e-9);
  EXPECT_NEAR(error.largest_deg, 10, 1e-9);
}

TEST(DepthError, OneScaleForAllFramesOfAScene) {
  const DepthMap truth_a{"", 1, 1, {2}}, truth_b{"", 1, 1, {8}}, result_a{"", 1, 1, {1}},
      result_b{"", 1, 1, {1}};
  const DepthError error = depth_error({{&result_a, &truth_a}, {&result_b, &truth_b}}, 60);
  EXPECT_EQ(error.scale, 5);
  EXPECT_NEAR(error.abs_rel, (3.0 / 2 + 3.0 / 8) / 2, 1e-12);
  EXPECT_EQ(error.delta_1, 0);
}

TEST(DepthError, SamplesALargerTruthAtPixelCentres) {
  DepthMap truth{"", 60, 40, std::vector<float>(2400)};
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x)
      truth.values[static_cast<std::size_t>(y * 60 + x)] = 1.0F + static_cast<float>(x / 3 + y / 4);
  }
  DepthMap result{"", 20, 10, std::vector<float>(200)};  // 20×13.3 made a multiple of something
  for (int y = 0; y < 10; ++y) {
    for (int x = 0; x < 20; ++x)
      result.values[static_cast<std::size_t>(y * 20 + x)] = 1.0F + static_cast<float>(x + y);
  }
  EXPECT_NEAR(error_of(result, truth).abs_rel, 0, 1e-7);
  const DepthMap square{"a.png", 20, 20, std::vector<float>(400, 1)},
      wide{"", 80, 20, std::vector<float>(1600, 1)};
  EXPECT_THAT(refusal([&] { error_of(square, wide); }),
              HasSubstr("frame 'a.png': 20×20 is not a resized 80×20"));
}

TEST(DepthError, ResultsMayHaveHolesButNoNonsense) {
  const DepthMap truth{"", 3, 1, {1, 2, 3}}, holed{"", 3, 1, {0, 2, 3}};
  EXPECT_NEAR(error_of(holed, truth).coverage, 2.0 / 3, 1e-12);
  EXPECT_NEAR(error_of(holed, truth).abs_rel, 0, 1e-12);
  for (const float bad : {-1.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const DepthMap result{"", 3, 1, {1, bad, 3}};
    EXPECT_THAT(refusal([&] { error_of(result, truth); }), HasSubstr("depth of frame 0: holds"));
  }
  const DepthMap nothing{"", 3, 1, {0, 0, 0}};
  EXPECT_THAT(refusal([&] { error_of(nothing, truth); }), HasSubstr("no pixel"));
  EXPECT_THAT(refusal([&] { error_of(truth, nothing); }), HasSubstr("no pixel"));
}

TEST(CloudError, ByHand) {
  const std::vector<Eigen::Vector3d> truth = {{0, 0, 0}, {3, 0, 0}, {0, 4, 0}};
  const std::vector<Eigen::Vector3d> result = {{0, 0, 1}, {3, 0, 0.5}};
  const CloudError error = cloud_error(result, truth, 0.75);
  EXPECT_NEAR(error.accuracy, 0.75, 1e-12);
  EXPECT_NEAR(error.completeness, (1 + 0.5 + std::sqrt(17.0)) / 3, 1e-12);
  EXPECT_NEAR(error.chamfer, (error.accuracy + error.completeness) / 2, 1e-12);
  EXPECT_NEAR(error.precision, 1.0 / 2, 1e-12);
  EXPECT_NEAR(error.recall, 1.0 / 3, 1e-12);
  EXPECT_NEAR(error.f_score, 0.4, 1e-12);
  EXPECT_NEAR(cloud_error(result, truth, {}).threshold, 0.05, 1e-12);  // 1 % of the diagonal
  EXPECT_EQ(cloud_error(result, truth, 0.1).f_score, 0);
  EXPECT_THAT(refusal([&] { cloud_error({}, truth, 1); }), HasSubstr("result has no points"));
  EXPECT_THAT(refusal([&] { cloud_error(result, {}, 1); }), HasSubstr("truth has no points"));
  EXPECT_THAT(refusal([&] { cloud_error(result, {truth[0]}, {}); }), HasSubstr("--threshold"));
}

TEST(FrameMatch, ByNameAsFarAsNeeded) {
  const FrameMatch spelt =
      match_frames({{"a/0.jpg", {}}, {"b/0.jpg", {}}}, {{"./b/0.jpg", {}}, {"a/0.jpg", {}}});
  EXPECT_THAT(spelt.pairs, ElementsAre(Pair(0, 1), Pair(1, 0)));
  const FrameMatch file = match_frames({{"/x/10.jpg", 0}, {"/x/9.jpg", 1}}, {{"9.jpg", {}}, {"8.jpg", {}}});
  EXPECT_THAT(file.pairs, ElementsAre(Pair(1, 0)));
  EXPECT_THAT(file.only_result, ElementsAre("/x/10.jpg"));
  EXPECT_THAT(file.only_truth, ElementsAre("8.jpg"));
  EXPECT_THAT(match_frames({{"images/7.jpg", {}}}, {{"depth/7.png", {}}}).pairs, ElementsAre(Pair(0, 0)));
  // Two of one name in different folders cannot be told apart by it.
  EXPECT_THAT(match_frames({{"a/0.jpg", {}}, {"b/0.jpg", {}}}, {{"0.jpg", {}}}).pairs, IsEmpty());
  EXPECT_THAT(refusal([] {
                match_frames({{"a", {}}, {"a", {}}}, {{"a", {}}});
              }),
              HasSubstr("result: frame 'a' is there twice"));
}

TEST(FrameMatch, ByTimeInAnyOrder) {
  const FrameMatch match = match_frames({{"", 2.004}, {"x", 0.5}, {"", 99}}, {{"", 0.5}, {"", 1}, {"", 2}});
  EXPECT_THAT(match.pairs, ElementsAre(Pair(1, 0), Pair(0, 2)));
  EXPECT_THAT(match.only_result, ElementsAre("99"));
  EXPECT_THAT(match.only_truth, ElementsAre("1"));
  EXPECT_THAT(match_frames({{"", 2.006}}, {{"", 0.5}, {"", 1}, {"", 2}}).pairs, IsEmpty());
  EXPECT_THAT(refusal([] {
                match_frames({{"", 1}, {"", 1}}, {{"", 1}});
              }),
              HasSubstr("time 1 is there twice"));
  EXPECT_THAT(refusal([] {
                match_frames({{"", 1}, {"", 1.001}}, {{"", 1}, {"", 2}});
              }),
              HasSubstr("have the time 1"));
}

TEST(FrameMatch, ByPositionOnlyWhereNothingElseIsKnown) {
  EXPECT_THAT(match_frames({{}, {}}, {{}, {}}).pairs, ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_THAT(refusal([] { match_frames({{}, {}}, {{}}); }), HasSubstr("2 frames against 1"));
  EXPECT_THAT(refusal([] {
                match_frames({{"", 1}}, {{"a.jpg", {}}});
              }),
              HasSubstr("times only, the true ones names"));
}

}  // namespace
}  // namespace vggt
