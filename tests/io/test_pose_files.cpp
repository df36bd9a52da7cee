// Cameras from files of others and from ours, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>

#include "io/scene/pose_files.h"
#include "io/scene/scene_files.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using testing::HasSubstr;

// A quarter turn about y, (x,y,z) -> (z,y,-x), and a shift: the centre is -Rᵀt = (3,-2,-1).
constexpr const char* kImages =
    "# comment\n"
    "1 0.70710678118654752 0 0.70710678118654752 0 1 2 3 7 left image.jpg\n"
    "10.5 20.25 -1 30 40 5 1 2 3 4 5 6\n"
    "2 2 0 0 0 0 0 0 8 b.jpg\r\n"
    "\n";

TEST(ColmapImages, WithAndWithoutObservations) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "images.txt", kImages);
  test::write_text(folder / "cameras.txt", "# cameras\n7 PINHOLE 200 100 100 90 100 50\n");
  const std::vector<FramePose> poses = read_colmap_images(folder / "images.txt");
  ASSERT_EQ(poses.size(), 2U);
  EXPECT_EQ(poses[0].file, "left image.jpg");
  EXPECT_FALSE(poses[0].time_s);
  Eigen::Matrix4d expected;
  expected << 0, 0, -1, 3, 0, 1, 0, -2, 1, 0, 0, -1, 0, 0, 0, 1;
  EXPECT_TRUE(poses[0].world_from_cam.isApprox(expected, 1e-12)) << poses[0].world_from_cam;
  EXPECT_NEAR(*poses[0].fov_x_rad, std::numbers::pi / 2, 1e-12);
  EXPECT_EQ(poses[1].file, "b.jpg");
  EXPECT_TRUE(poses[1].world_from_cam.isIdentity());
  EXPECT_FALSE(poses[1].fov_x_rad);
  test::write_text(folder / "bare.txt", "1 1 0 0 0 0 0 0 1 a\n2 1 0 0 0 0 0 0 1 12\n");
  EXPECT_EQ(read_colmap_images(folder / "bare.txt").size(), 2U);
}

TEST(ColmapImages, RefusesWithPathAndLine) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "i.txt", text);
    return refusal([&] { read_colmap_images(folder / "i.txt"); });
  };
  EXPECT_THAT(refused("\n1 1 0 0 0 0 0 0 1\n"), HasSubstr("i.txt:2: has fewer than 10 fields"));
  EXPECT_THAT(refused("1 nan 0 0 0 0 0 0 1 a.jpg\n"), HasSubstr("'nan' is not finite"));
  EXPECT_THAT(refused("1 x 0 0 0 0 0 0 1 a.jpg\n"), HasSubstr("'x' is not a number"));
  EXPECT_THAT(refused("1 0 0 0 0 0 0 0 1 a.jpg\n"), HasSubstr("quaternion"));
  test::write_text(folder / "cameras.txt", "7 PINHOLE 200 100 0\n");
  EXPECT_THAT(refused(kImages), HasSubstr("cameras.txt:1: "));
}

TEST(TransformsJson, TurnsOpenGlAxes) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "transforms.json", R"({"w": 200, "fl_x": 100, "frames": [
    {"file_path": "./images/a", "transform_matrix": [[1,0,0,5],[0,1,0,6],[0,0,1,7],[0,0,0,1]]},
    {"file_path": "b", "fl_x": 50, "transform_matrix": [[0,0,1,0],[0,1,0,0],[-1,0,0,0]]}]})");
  const std::vector<FramePose> poses = read_pose_json(folder / "transforms.json");
  ASSERT_EQ(poses.size(), 2U);
  EXPECT_EQ(poses[0].file, "./images/a");
  EXPECT_NEAR(*poses[0].fov_x_rad, std::numbers::pi / 2, 1e-12);
  EXPECT_NEAR(*poses[1].fov_x_rad, 2 * std::atan(2.0), 1e-12);
  // OpenGL's camera looks along -z with y up, ours along z with y down.
  const Eigen::Matrix4d& pose = poses[0].world_from_cam;
  EXPECT_TRUE(pose.col(3).head<3>().isApprox(Eigen::Vector3d(5, 6, 7)));
  EXPECT_TRUE(pose.col(2).head<3>().isApprox(Eigen::Vector3d(0, 0, -1)));
  EXPECT_TRUE(pose.col(1).head<3>().isApprox(Eigen::Vector3d(0, -1, 0)));
  EXPECT_TRUE(poses[1].world_from_cam.col(2).head<3>().isApprox(Eigen::Vector3d(-1, 0, 0)));
}

TEST(CamerasJson, IsReadBack) {
  const test::TemporaryFolder folder;
  SceneCamera camera;
  camera.file = "x y.jpg";
  camera.time_s = 2.5;
  camera.original_width = 200;
  camera.k_network = camera.k_original = Eigen::Matrix3d::Identity() * 100;
  camera.cam_from_world.setIdentity();
  camera.cam_from_world.topRightCorner<3, 1>() << 1, 2, 3;
  SceneCamera broken = camera;
  broken.file = "broken.jpg";
  broken.valid = false;
  broken.cam_from_world.setConstant(std::nan(""));
  write_cameras_json(folder / "c.json", {camera, broken});
  const std::vector<FramePose> poses = read_pose_json(folder / "c.json");
  ASSERT_EQ(poses.size(), 2U);
  EXPECT_EQ(poses[0].file, "x y.jpg");
  EXPECT_EQ(poses[0].time_s, 2.5);
  EXPECT_TRUE(poses[0].world_from_cam.col(3).head<3>().isApprox(Eigen::Vector3d(-1, -2, -3)));
  EXPECT_NEAR(*poses[0].fov_x_rad, std::numbers::pi / 2, 1e-12);
  EXPECT_FALSE(poses[1].valid);
}

TEST(PoseJson, RefusesWithThePlace) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "t.json", text);
    return refusal([&] { read_pose_json(folder / "t.json"); });
  };
  const auto frame = [](const std::string& matrix) {
    return R"({"frames": [{"file_path": "a", "transform_matrix": )" + matrix + "}]}";
  };
  EXPECT_THAT(refused("{"), HasSubstr("t.json: not valid JSON"));
  EXPECT_THAT(refused("{}"), HasSubstr("neither `cameras`"));
  EXPECT_THAT(refused(R"({"frames": 3})"), HasSubstr("neither"));
  EXPECT_THAT(refused(R"({"frames": [3]})"), HasSubstr("frames[0]"));
  EXPECT_THAT(refused(R"({"frames": [{"file_path": 3}]})"),
              HasSubstr("`file_path` is missing or of another type"));
  EXPECT_THAT(refused(R"({"frames": [{"file_path": "a"}]})"), HasSubstr("transform_matrix"));
  EXPECT_THAT(refused(frame("[]")), HasSubstr("not 3×4"));
  EXPECT_THAT(refused(frame("[[1,0,0,0],[0,1,0,0],[0,0,null,0]]")), HasSubstr("no number"));
  EXPECT_THAT(refused(frame("[[1,0,0,0],[0,1,0,0],[0,0,NaN,0]]")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(frame("[[1,0,0,0],[0,1,0,0],[0,0,-1,0]]")),
              HasSubstr("frames[0]: a pose is no rotation"));
  EXPECT_THAT(refused(frame("[[2,0,0,0],[0,2,0,0],[0,0,2,0]]")), HasSubstr("no rotation"));
  EXPECT_THAT(refused(R"({"cameras": [{"file": "a", "cam_from_world": [[1e400]]}]})"), HasSubstr("t.json"));
  EXPECT_THAT(refused(std::string(100000, '[')), HasSubstr("t.json"));
}

}  // namespace
}  // namespace vggt
