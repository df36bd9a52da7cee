// Cameras from files of others and from ours, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <cmath>
#include <numbers>

#include "io/scene/cameras_json.h"
#include "io/scene/colmap_text.h"
#include "io/scene/pose_files.h"
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
  const std::vector<FrameCamera> frames = read_colmap_images(folder / "images.txt");
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].file, "left image.jpg");
  EXPECT_FALSE(frames[0].time_s);
  Eigen::Matrix4d expected;
  expected << 0, 0, -1, 3, 0, 1, 0, -2, 1, 0, 0, -1, 0, 0, 0, 1;
  const Camera& camera = frames[0].camera;
  EXPECT_TRUE(camera.cam_from_world.inverse().matrix().isApprox(expected, 1e-12));
  EXPECT_EQ(camera.width, 200);
  EXPECT_EQ(camera.height, 100);
  EXPECT_EQ(camera.k, (Eigen::Matrix3d{{100, 0, 99.5}, {0, 90, 49.5}, {0, 0, 1}}));
  EXPECT_NEAR(*camera.fov_x_rad(), std::numbers::pi / 2, 1e-12);
  EXPECT_EQ(frames[1].file, "b.jpg");
  EXPECT_TRUE(frames[1].camera.cam_from_world.matrix().isIdentity());
  EXPECT_FALSE(frames[1].camera.has_intrinsics());
  EXPECT_FALSE(frames[1].camera.fov_x_rad());
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
  EXPECT_THAT(refused(kImages),
              HasSubstr("cameras.txt:1: a camera's width and focal length must be positive"));
  test::write_text(folder / "cameras.txt", "7 PINHOLE 200 100 90 90 0 0\n7 PINHOLE 200 100 80 80 0 0\n");
  EXPECT_THAT(refused(kImages), HasSubstr("cameras.txt:2: camera 7 is there twice"));
  test::write_text(folder / "cameras.txt", "7 PINHOLE 200.5 100 90\n");
  EXPECT_THAT(refused(kImages), HasSubstr("cameras.txt:1: a camera's size must be whole numbers of pixels"));
}

TEST(PoseFiles, ColmapsCamerasAloneAreNamed) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "cameras.txt", "# Camera list\n1 PINHOLE 200 100 90 90 100 50\n");
  test::write_text(folder / "kitti.txt", "1 0 0 0.5 0 1 0 0 0 0 1 2\n1 0 0 1.5 0 1 0 0 0 0 1 3\n");
  EXPECT_THAT(refusal([&] { read_pose_file(folder / "kitti.txt"); }),
              HasSubstr("kitti.txt: KITTI's poses, which name no frames"));
  EXPECT_THAT(refusal([&] { read_pose_file(folder / "cameras.txt", LensReading::whole); }),
              HasSubstr("cameras.txt: COLMAP's cameras, which name no images; give images.txt"));
}

TEST(ColmapImages, LensesAreReadWhole) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "images.txt", "1 1 0 0 0 0 0 0 1 a.jpg\n\n");
  const auto lens = [&](const std::string& numbers, LensReading reading = LensReading::whole) {
    test::write_text(folder / "cameras.txt", "1 " + numbers + "\n");
    return read_colmap_images(folder / "images.txt", reading).at(0).camera;
  };
  const auto refused = [&](const std::string& numbers) { return refusal([&] { lens(numbers); }); };
  const Eigen::Matrix3d square{{300, 0, 199.5}, {0, 300, 99.5}, {0, 0, 1}};
  EXPECT_EQ(lens("SIMPLE_PINHOLE 400 210 300 200 100").k, square);
  EXPECT_EQ(lens("PINHOLE 400 210 300 310 200 100").k(1, 1), 310);
  const Camera radial = lens("RADIAL 400 210 300 200 100 -0.1 0.02");
  EXPECT_EQ(radial.k, square);
  EXPECT_EQ(radial.distortion, Eigen::Vector2d(-0.1, 0.02));
  EXPECT_EQ(radial.model, CameraModel::radial);
  EXPECT_EQ(lens("simple_radial 400 210 300 200 100 -0.1").distortion, Eigen::Vector2d(-0.1, 0));
  EXPECT_EQ(lens("OPENCV 400 210 300 300 200 100 -0.1 0.02 0 0").distortion, radial.distortion);

  EXPECT_THAT(refused("SIMPLE_RADIAL 400 210 300 200"),
              HasSubstr("cameras.txt:1: SIMPLE_RADIAL has 4 parameters, got 2"));
  EXPECT_THAT(refused("PINHOLE 400 210 300 310 200 100 9"), HasSubstr("PINHOLE has 4 parameters, got 5"));
  EXPECT_THAT(refused("PINHOLE 400 210 300 -310 200 100"), HasSubstr("must be positive"));
  const std::string tangential = "OPENCV 400 210 300 300 200 100 -0.1 0 0.001 0";
  EXPECT_THAT(refused(tangential), HasSubstr("a lens with p1, p2 is none of SIMPLE_PINHOLE"));
  EXPECT_THAT(refused("OPENCV 400 210 300 310 200 100 -0.1 0 0 0"), HasSubstr("two focal lengths and dist"));
  EXPECT_THAT(refused("OPENCV_FISHEYE 400 210 300 300 200 100 0 0 0 0"), HasSubstr("'OPENCV_FISHEYE'"));
  // Where only the poses matter, such lenses do not.
  const Camera partly = lens(tangential, LensReading::as_far_as_known);
  EXPECT_EQ(partly.k, square);
  EXPECT_FALSE(partly.is_distorted());
  EXPECT_EQ(lens("FOV 400 210 300 300 200 100 1", LensReading::as_far_as_known).k(0, 0), 300);
}

TEST(TransformsJson, LensesAreReadWhole) {
  const test::TemporaryFolder folder;
  const auto lens = [&](const std::string& all, const std::string& own = "",
                        LensReading reading = LensReading::whole) {
    test::write_text(folder / "t.json", "{" + all + R"("frames": [{)" + own + R"("file_path": "a",
      "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]}]})");
    return read_cameras_json(folder / "t.json", reading).at(0).camera;
  };
  const std::string size = R"("w": 400, "h": 210, "fl_x": 300, )";
  EXPECT_EQ(lens(size).k, (Eigen::Matrix3d{{300, 0, 199.5}, {0, 300, 104.5}, {0, 0, 1}}));
  const Camera camera = lens(size + R"("fl_y": 300, "cx": 190.5, "cy": 100, "k1": 0.1, "k2": -0.2, )");
  EXPECT_EQ(camera.k, (Eigen::Matrix3d{{300, 0, 190}, {0, 300, 99.5}, {0, 0, 1}}));
  EXPECT_EQ(camera.distortion, Eigen::Vector2d(0.1, -0.2));
  EXPECT_EQ(lens(size + R"("k1": 0.1, )", R"("k1": 0.3, "cx": 180.5, )").distortion[0], 0.3);
  EXPECT_EQ(lens(size + R"("camera_angle_x": 1, )").k(0, 0), 300) << "pixels are more exact";
  const auto refused = [&](const std::string& all) { return refusal([&] { lens(size + all); }); };
  EXPECT_THAT(refused(R"("p1": 0.01, )"), HasSubstr("t.json: frames[0]: a lens with p1 is none of"));
  EXPECT_THAT(refused(R"("k3": 0.01, )"), HasSubstr("a lens with k3"));
  EXPECT_THAT(refused(R"("camera_model": "OPENCV_FISHEYE", )"), HasSubstr("'OPENCV_FISHEYE'"));
  EXPECT_THAT(refused(R"("k1": "x", )"), HasSubstr("`k1` is missing or of another type"));
  EXPECT_THAT(refused(R"("fl_y": 0, )"), HasSubstr("must be positive"));
  EXPECT_THAT(refused(R"("is_fisheye": true, )"), HasSubstr("a lens with `is_fisheye`"));
  EXPECT_EQ(lens(size + R"("is_fisheye": false, )").k(0, 0), 300);
  EXPECT_EQ(lens(size + R"("is_fisheye": true, )", R"("is_fisheye": false, )").k(0, 0), 300);
  EXPECT_FALSE(lens(size + R"("p1": 0.01, )", "", LensReading::as_far_as_known).has_whole_lens);
  EXPECT_TRUE(lens(size + R"("k1": 0.01, )", "", LensReading::as_far_as_known).has_whole_lens);
  EXPECT_FALSE(
      lens(size + R"("camera_model": "OPENCV_FISHEYE", "k1": 0.1, )", "", LensReading::as_far_as_known)
          .is_distorted());
  EXPECT_THAT(refusal([&] { lens(R"("camera_angle_x": 1, "h": 210, "cy": 100, )"); }),
              HasSubstr("`cy` is given without `w`"));
  const std::string angle = R"("camera_angle_x": 1.5707963267948966, )";
  EXPECT_EQ(lens(angle + R"("k1": 0.1, "k2": -0.2, )").distortion, Eigen::Vector2d(0.1, -0.2));
  const Camera sized = lens(angle + R"("w": 400, "h": 210, "cx": 190.5, )");
  EXPECT_NEAR(sized.k(1, 1), 200, 1e-9);
  EXPECT_EQ(sized.k(0, 2), 190);
  for (const std::string& known : {std::string(R"("w": 400, "fl_x": 300, )"), angle + R"("w": 400, )"})
    EXPECT_THAT(refusal([&] { lens(known + R"("cy": 100, )"); }), HasSubstr("`cy` is given without `h`"));
  EXPECT_THAT(refusal([&] { lens(angle + R"("camera_model": "OPENCV_FISHEYE", )"); }),
              HasSubstr("'OPENCV_FISHEYE'"));
  EXPECT_EQ(lens(size + R"("p1": 0.01, )", "", LensReading::as_far_as_known).k(0, 0), 300);
}

TEST(CamerasJson, NumbersThatTheModelHasNotAreTheirOwnModels) {
  const test::TemporaryFolder folder;
  const auto lens = [&](const std::string& k, const std::string& distortion, const std::string& model,
                        LensReading reading = LensReading::whole) {
    test::write_text(folder / "c.json", R"({"cameras": [{"file": "a", "original_size": [640, 480],
      "k_original": )" + k + R"(, "distortion": )" +
                                            distortion + R"(, "model": ")" + model + R"(",
      "cam_from_world": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]}]})");
    return read_cameras_json(folder / "c.json", reading).at(0).camera;
  };
  const std::string square = "[[500,0,310],[0,500,240],[0,0,1]]", other = "[[500,0,310],[0,400,240],[0,0,1]]";
  EXPECT_EQ(lens(square, "[0,0]", "PINHOLE").model, CameraModel::pinhole);
  EXPECT_EQ(lens(square, "[0,0]", "RADIAL").model, CameraModel::radial);
  EXPECT_EQ(lens(square, "[-0.1,0]", "SIMPLE_RADIAL").k(0, 2), 310);
  EXPECT_EQ(lens(square, "[-0.1,0.2]", "SIMPLE_RADIAL").model, CameraModel::radial);
  EXPECT_EQ(lens(other, "[0,0]", "SIMPLE_PINHOLE").model, CameraModel::pinhole);
  EXPECT_THAT(refusal([&] { lens(other, "[-0.1,0]", "SIMPLE_RADIAL"); }),
              HasSubstr("two focal lengths and distortion"));
  const Camera partly = lens(other, "[-0.1,0]", "SIMPLE_RADIAL", LensReading::as_far_as_known);
  EXPECT_FALSE(partly.is_distorted());
  EXPECT_FALSE(partly.has_whole_lens);
  EXPECT_EQ(lens("[[500,1e-12,310],[0,500,240],[0,0,1]]", "[0,0]", "PINHOLE").k(0, 1), 0);
  for (const char* odd : {"[[500,9,310],[0,500,240],[0,0,1]]", "[[500,0,310],[0,500,240],[0,0,5]]"})
    EXPECT_THAT(refusal([&] { lens(odd, "[0,0]", "PINHOLE"); }),
                HasSubstr("c.json: cameras[0]: a lens with skew"));
}

// The widest field of view lies where the distorted image ends.
TEST(FieldOfView, IsOfTheDistortedImage) {
  Camera camera;
  set_simple_intrinsics(camera, 640, 480, 400);
  camera.distortion << -0.1, 0.02;
  const double half = *camera.fov_x_rad() / 2;
  EXPECT_NEAR(camera.project({std::tan(half), 0, 1}).x(), 639.5, 1e-9);
  EXPECT_NEAR(*camera.fov_x_rad(/*undistorted=*/true), 2 * std::atan(0.8), 1e-12);
  camera.distortion << -1, 0;
  EXPECT_FALSE(camera.fov_x_rad());
}

TEST(TransformsJson, TurnsOpenGlAxes) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "transforms.json", R"({"w": 200, "fl_x": 100, "frames": [
    {"file_path": "./images/a", "transform_matrix": [[1,0,0,5],[0,1,0,6],[0,0,1,7],[0,0,0,1]]},
    {"file_path": "b", "fl_x": 50, "transform_matrix": [[0,0,1,0],[0,1,0,0],[-1,0,0,0]]}]})");
  const std::vector<FrameCamera> frames = read_cameras_json(folder / "transforms.json");
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].file, "./images/a");
  EXPECT_NEAR(*frames[0].camera.fov_x_rad(), std::numbers::pi / 2, 1e-12);
  EXPECT_NEAR(*frames[1].camera.fov_x_rad(), 2 * std::atan(2.0), 1e-12);
  // OpenGL's camera looks along -z with y up, ours along z with y down.
  const Eigen::Isometry3d pose = frames[0].camera.cam_from_world.inverse();
  EXPECT_TRUE(pose.translation().isApprox(Eigen::Vector3d(5, 6, 7)));
  EXPECT_TRUE(pose.linear().col(2).isApprox(Eigen::Vector3d(0, 0, -1)));
  EXPECT_TRUE(pose.linear().col(1).isApprox(Eigen::Vector3d(0, -1, 0)));
  EXPECT_TRUE(frames[1].camera.cam_from_world.inverse().linear().col(2).isApprox(Eigen::Vector3d(-1, 0, 0)));
}

TEST(TransformsJson, AFieldOfViewNeedsNoWidth) {
  const test::TemporaryFolder folder;
  const auto camera_of = [&](const std::string& intrinsics) {
    test::write_text(folder / "t.json",
                     "{" + intrinsics + R"("frames": [{"file_path": "a", "transform_matrix":
      [[1,0,0,0],[0,1,0,0],[0,0,1,0]]}]})");
    return read_cameras_json(folder / "t.json").at(0).camera;
  };
  EXPECT_EQ(camera_of(R"("camera_angle_x": 1.25, )").width, 1);
  EXPECT_NEAR(*camera_of(R"("camera_angle_x": 1.25, )").fov_x_rad(), 1.25, 1e-12);
  const Camera sized = camera_of(R"("camera_angle_x": 1.25, "w": 800.0, "h": 600, )");
  EXPECT_EQ(sized.width, 800);
  EXPECT_EQ(sized.height, 600);
  EXPECT_NEAR(*sized.fov_x_rad(), 1.25, 1e-12);
  EXPECT_FALSE(camera_of(R"("fl_x": 100, )").has_intrinsics());
  EXPECT_FALSE(camera_of("").has_intrinsics());
}

TEST(CamerasJson, IsReadBack) {
  const test::TemporaryFolder folder;
  FrameCamera frame{"x y.jpg", 2.5};
  Camera& camera = frame.camera;
  camera.k << 50, 0, 20, 0, 55, 10, 0, 0, 1;
  camera.width = 50;  // half the size, and cropped
  camera.map = {0.5, 0.5, -25, 0};
  camera.original_width = 200;
  camera.original_height = 50;
  camera.cam_from_world.translation() << 1, 2, 3;
  FrameCamera broken = frame;
  broken.file = "broken.jpg";
  broken.time_s.reset();
  broken.camera.valid = false;
  broken.camera.cam_from_world.matrix().setConstant(std::nan(""));
  write_cameras_json(folder / "c.json", {frame, broken});
  const std::vector<FrameCamera> read = read_cameras_json(folder / "c.json");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].file, "x y.jpg");
  EXPECT_EQ(read[0].time_s, 2.5);
  EXPECT_TRUE(read[0].camera.cam_from_world.isApprox(camera.cam_from_world));
  EXPECT_EQ(read[0].camera.width, 200);
  EXPECT_EQ(read[0].camera.height, 50);
  EXPECT_EQ(read[0].camera.k, camera.k_original());
  EXPECT_NEAR(*read[0].camera.fov_x_rad(), std::numbers::pi / 2, 1e-12);
  EXPECT_FALSE(read[1].camera.valid);
  EXPECT_FALSE(read[1].time_s);
}

TEST(PoseJson, RefusesWithThePlace) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "t.json", text);
    return refusal([&] { read_cameras_json(folder / "t.json"); });
  };
  const auto frame = [](const std::string& matrix) {
    return R"({"frames": [{"file_path": "a", "transform_matrix": )" + matrix + "}]}";
  };
  EXPECT_THAT(refused("{"), HasSubstr("t.json: not valid JSON: parse error at"));
  EXPECT_THAT(refused("{}"), HasSubstr("neither `cameras`"));
  EXPECT_THAT(refused(R"({"frames": 3})"), HasSubstr("neither"));
  EXPECT_THAT(refused(R"({"frames": [3]})"), HasSubstr("frames[0]"));
  EXPECT_THAT(refused(R"({"frames": [{"file_path": 3}]})"),
              HasSubstr("`file_path` is missing or of another type"));
  EXPECT_THAT(refused(R"({"frames": [{"file_path": "a"}]})"), HasSubstr("transform_matrix"));
  // Whose lens may be all that is wanted.
  test::write_text(folder / "t.json", R"({"w": 90, "h": 60, "fl_x": 80, "frames": [{"file_path": "a"}]})");
  EXPECT_EQ(read_cameras_json(folder / "t.json", LensReading::whole).at(0).camera.k(0, 0), 80);
  const auto ours = [&](const std::string& lens) {
    return refused(R"({"cameras": [{"file": "a", "cam_from_world": [[1,0,0,0],[0,1,0,0],[0,0,1,0]], )" +
                   lens + "}]}");
  };
  for (const char* k : {"null", "[[1,0],[0,1]]", "[[1,0,0],[0,1,0],[0,0,\"1\"]]"})
    EXPECT_THAT(ours(std::string(R"("original_size": [9, 9], "k_original": )") + k),
                HasSubstr("cameras[0]: `k_original` is no matrix of 3×3 numbers"));
  EXPECT_THAT(ours(R"("original_size": [9], "k_original": [[9,0,4],[0,9,4],[0,0,1]])"),
              HasSubstr("`original_size` is not [width, height]"));
  EXPECT_THAT(refused(frame("[]")), HasSubstr("not 3×4"));
  EXPECT_THAT(refused(frame("[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,7]]")), HasSubstr("last row"));
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
