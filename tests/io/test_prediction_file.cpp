// Cameras and depth of scenes in a .safetensors file, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scene/prediction_reader.h"
#include "io/scene/prediction_writer.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using test::bytes_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::string safetensors(const std::string& header, const std::string& data) {
  const std::vector<uint64_t> length = {header.size()};
  return bytes_of(length) + header + data;
}

TEST(PredictionFile, ScenesOfFrames) {
  const test::TemporaryFolder folder;
  std::vector<float> extrinsic;
  for (int i = 0; i < 4; ++i) {
    for (const float value : {1.F, 0.F, 0.F, static_cast<float>(i), 0.F, 1.F, 0.F, 0.F, 0.F, 0.F, 1.F, 0.F})
      extrinsic.push_back(value);
  }
  const std::string data =
      bytes_of(extrinsic) + bytes_of<uint16_t>({0x3C00, 0x4000, 0x4200, 0x4400}) + std::string("\1\1\0\1", 4);
  test::write_text(folder / "p.safetensors",
                   safetensors(R"({"extrinsic":{"dtype":"F32","shape":[2,2,3,4],"data_offsets":[0,192]},)"
                               R"("depth":{"dtype":"F16","shape":[2,2,1,1],"data_offsets":[192,200]},)"
                               R"("valid":{"dtype":"BOOL","shape":[2,2,1,1],"data_offsets":[200,204]}})",
                               data));
  const PredictionFile file(folder / "p.safetensors");
  EXPECT_EQ(file.scenes(), 2);
  EXPECT_TRUE(file.has_cameras() && file.has_depth());
  const std::vector<FrameCamera> cameras = file.cameras(1);
  ASSERT_EQ(cameras.size(), 2U);
  EXPECT_EQ(cameras[1].time_s, 1);
  EXPECT_EQ(cameras[1].camera.center().x(), -3);
  EXPECT_FALSE(cameras[1].camera.has_intrinsics());
  const std::vector<DepthMap> depth = file.depth(1);
  ASSERT_EQ(depth.size(), 2U);
  EXPECT_THAT(depth[0].values, ElementsAre(0));  // not valid
  EXPECT_THAT(depth[1].values, ElementsAre(4));
}

TEST(PredictionFile, IntrinsicsAreOfTheDepthMaps) {
  const test::TemporaryFolder folder;
  const std::vector<float> pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  const auto camera_of = [&](const std::vector<float>& intrinsic, bool with_depth) {
    const std::string depth = R"(,"depth":{"dtype":"F32","shape":[1,2,4],"data_offsets":[84,116]})";
    test::write_text(folder / "p.safetensors",
                     safetensors(R"({"extrinsic":{"dtype":"F32","shape":[1,3,4],"data_offsets":[0,48]},)"
                                 R"("intrinsic":{"dtype":"F32","shape":[1,3,3],"data_offsets":[48,84]})" +
                                     (with_depth ? depth : "") + "}",
                                 bytes_of(pose) + bytes_of(intrinsic) +
                                     bytes_of(std::vector<float>(with_depth ? 8 : 0, 1))));
    return PredictionFile(folder / "p.safetensors").cameras(0).at(0).camera;
  };
  const std::vector<float> k = {2, 0, 1.5, 0, 3, 1, 0, 0, 1};
  const Camera with_depth = camera_of(k, true), alone = camera_of(k, false);
  EXPECT_EQ(with_depth.width, 4);
  EXPECT_EQ(with_depth.height, 2);
  EXPECT_EQ(with_depth.k, (Eigen::Matrix3d{{2, 0, 1.5}, {0, 3, 1}, {0, 0, 1}}));
  EXPECT_EQ(alone.width, 3);
  EXPECT_EQ(alone.height, 2);
  EXPECT_FALSE(camera_of({0, 0, 1.5, 0, 3, 1, 0, 0, 1}, true).has_intrinsics());
}

TEST(PredictionFile, Refusals) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& header, std::size_t bytes) {
    test::write_text(folder / "p.safetensors", safetensors(header, std::string(bytes, '\0')));
    return refusal([&] { PredictionFile(folder / "p.safetensors").cameras(0); });
  };
  EXPECT_THAT(refused("{}", 0), HasSubstr("holds neither"));
  EXPECT_THAT(refused(R"({"extrinsic":{"dtype":"F32","shape":[1,3,4],"data_offsets":[0,48]}})", 48),
              HasSubstr("frame 0: a pose is no rotation"));
  EXPECT_THAT(refused(R"({"extrinsic":{"dtype":"F32","shape":[1,4,3],"data_offsets":[0,48]}})", 48),
              HasSubstr("`extrinsic` is [1,4,3]"));
  EXPECT_THAT(refused(R"({"extrinsic":{"dtype":"F32","shape":[0,3,4],"data_offsets":[0,0]}})", 0),
              HasSubstr("[0,3,4]"));
  EXPECT_THAT(refused(R"({"depth":{"dtype":"I32","shape":[1,1,1],"data_offsets":[0,4]}})", 4),
              HasSubstr("I32"));
  EXPECT_THAT(
      refused(
          R"({"depth":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]},"valid":{"dtype":"U8","shape":[1,2,1],"data_offsets":[4,6]}})",
          6),
      HasSubstr("differ in shape"));
  EXPECT_THAT(refused(R"({"depth":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}})", 3),
              HasSubstr("not a valid .safetensors"));
}

// The tests' folder may lie where files without names are not known: then it stands at its place at once.
TEST(PredictionFile, StandsAtItsPlaceWhenItIsWhole) {
  const test::TemporaryFolder folder;
  const std::filesystem::path final_path = folder / "new/p.safetensors", place = folder / "staged";
  int asked = 0;
  const auto where = [&] {
    ++asked;
    return place;
  };
  const std::vector<float> image(3 * 2 * 2, 0.5F);
  {
    PredictionsWriter cut_off(final_path, where, {.frames = 1, .height = 2, .width = 2});
    EXPECT_THROW(cut_off.close(), std::logic_error);
  }
  EXPECT_EQ(std::filesystem::exists(place), asked == 1);
  const bool has_unnamed_files = asked == 0;
  std::filesystem::remove(place);
  PredictionsWriter writer(final_path, where, {.frames = 1, .height = 2, .width = 2});
  writer.write("images", 0, 1, image.data());
  EXPECT_EQ(std::filesystem::exists(place), !has_unnamed_files);
  writer.close();
  EXPECT_EQ(asked, has_unnamed_files ? 1 : 2);
  EXPECT_TRUE(std::filesystem::is_regular_file(place));
  EXPECT_GT(std::filesystem::file_size(place), image.size() * sizeof(float));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

}  // namespace
}  // namespace vggt
