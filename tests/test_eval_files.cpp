// What eval reads: cameras, depth and clouds from files of others, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <open3d/geometry/PointCloud.h>
#include <open3d/io/PointCloudIO.h>

#include <Eigen/Geometry>
#include <cmath>
#include <cstring>
#include <numbers>

#include "io/depth_files.h"
#include "io/pose_files.h"
#include "io/prediction_file.h"
#include "io/scene_files.h"
#include "tests/media.h"
#include "tests/refusal.h"

namespace vggt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

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

TEST(DepthFiles, PngInItsUnit) {
  const test::TemporaryFolder folder;
  cv::Mat depth(2, 3, CV_16UC1, cv::Scalar(0));
  depth.at<uint16_t>(0, 1) = 1500;
  depth.at<uint16_t>(1, 2) = 65535;
  ASSERT_TRUE(cv::imwrite((folder / "d.png").string(), depth));
  const DepthMap map = read_depth_png(folder / "d.png", 0.001);
  EXPECT_EQ(map.name, "d.png");
  EXPECT_EQ(map.width, 3);
  EXPECT_EQ(map.height, 2);
  EXPECT_THAT(map.values, ElementsAre(0, 1.5F, 0, 0, 0, 65.535F));
  ASSERT_TRUE(cv::imwrite((folder / "rgb.png").string(), test::flat_picture(4, 4, 9)));
  EXPECT_THAT(refusal([&] { read_depth_png(folder / "rgb.png", 1); }),
              HasSubstr("rgb.png: not a 16-bit grey image"));
  auto bytes = test::read_bytes(folder / "d.png");
  bytes.resize(bytes.size() - 20);
  test::write_bytes(folder / "short.png", bytes);
  EXPECT_THAT(refusal([&] { read_depth_png(folder / "short.png", 1); }), HasSubstr("short.png: "));
}

TEST(DepthFiles, PfmIsStoredFromBelow) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "d.pfm", "Pf\n2 2\n-1.0\n" + bytes_of<float>({1, INFINITY, 3, 4}));
  EXPECT_THAT(read_depth_pfm(folder / "d.pfm").values, ElementsAre(3, 4, 1, 0));
  test::write_text(folder / "big.pfm", std::string("Pf\n1 1\n1\n") + std::string("\x3f\x80\0\0", 4));
  EXPECT_THAT(read_depth_pfm(folder / "big.pfm").values, ElementsAre(1));
  for (const char* text : {"Pf\n", "Pf\n2 2\n-1\nabc", "Pf\n-2 2\n-1\n", "Pf\n99999 99999\n-1\n",
                           "Pf\n60000 60000\n-1\n", "PF\n1 1\n-1\n"}) {
    test::write_text(folder / "bad.pfm", text);
    EXPECT_THAT(refusal([&] { read_depth_pfm(folder / "bad.pfm"); }), HasSubstr("bad.pfm: ")) << text;
  }
}

std::string npy(const std::string& dictionary, const std::string& data) {
  const std::vector<uint16_t> length = {static_cast<uint16_t>(dictionary.size())};
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of(length) + dictionary + data;
}

TEST(DepthFiles, NpyOfOneFrameOrSeveral) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n",
                                         bytes_of<float>({1, 2})));
  const std::vector<DepthMap> one = read_depth_npy(folder / "a.npy");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].name, "a.npy");
  EXPECT_THAT(one[0].values, ElementsAre(1, 2));
  test::write_text(folder / "b.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1, 2), }",
                                         bytes_of<double>({1, 2, 3, 4})));
  const std::vector<DepthMap> two = read_depth_npy(folder / "b.npy");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_THAT(two[1].values, ElementsAre(3, 4));
  EXPECT_EQ(two[1].width, 2);
}

TEST(DepthFiles, NpyRefusals) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "x.npy", text);
    return refusal([&] { read_depth_npy(folder / "x.npy"); });
  };
  const auto of_shape = [](const std::string& shape) {
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }", "abcd");
  };
  EXPECT_THAT(refused(""), HasSubstr("x.npy: it ends too early"));
  EXPECT_THAT(refused("\x93NUMPX\x01"), HasSubstr("not a .npy file"));
  EXPECT_THAT(refused(npy("{}", "")), HasSubstr("'descr'"));
  EXPECT_THAT(refused(npy("{'descr': '|O'}", "")), HasSubstr("type is '|O'"));
  EXPECT_THAT(refused(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "abcd")),
              HasSubstr("Fortran"));
  EXPECT_THAT(refused(of_shape("(1, 2)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(4000000000000000000, 1, 1)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(99999999999999999999, 1, 1)")), HasSubstr("whole number"));
  EXPECT_THAT(refused(of_shape("(65000, 65000)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(0, 1, 1)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(-1, 1)")), HasSubstr("sides"));
  EXPECT_THAT(refused(of_shape("(1,)")), HasSubstr("1 dimensions"));
  EXPECT_THAT(refused(of_shape("(1, z)")), HasSubstr("'z'"));
}

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
  EXPECT_TRUE(file.has_poses() && file.has_depth());
  const std::vector<FramePose> poses = file.poses(1);
  ASSERT_EQ(poses.size(), 2U);
  EXPECT_EQ(poses[1].time_s, 1);
  EXPECT_EQ(poses[1].world_from_cam(0, 3), -3);
  const std::vector<DepthMap> depth = file.depth(1);
  ASSERT_EQ(depth.size(), 2U);
  EXPECT_THAT(depth[0].values, ElementsAre(0));  // not valid
  EXPECT_THAT(depth[1].values, ElementsAre(4));
}

TEST(PredictionFile, Refusals) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& header, std::size_t bytes) {
    test::write_text(folder / "p.safetensors", safetensors(header, std::string(bytes, '\0')));
    return refusal([&] { PredictionFile(folder / "p.safetensors").poses(0); });
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

TEST(PlyPoints, WhatOpen3dWrites) {
  const test::TemporaryFolder folder;
  const std::vector<Eigen::Vector3d> points = {{1, 2, 3}, {-0.5, 0.25, 1e6}, {0, 0, 0}};
  const open3d::geometry::PointCloud cloud(points);
  for (const bool ascii : {false, true}) {
    ASSERT_TRUE(open3d::io::WritePointCloud((folder / "c.ply").string(), cloud, ascii));
    EXPECT_EQ(read_ply_points(folder / "c.ply"), points);
  }
  PointCloud ours;
  ours.points = {{1, 2, 3}};
  ours.colors = {{1, 2, 3}};
  write_ply(folder / "ours.ply", ours);
  EXPECT_THAT(read_ply_points(folder / "ours.ply"), ElementsAre(Eigen::Vector3d(1, 2, 3)));
}

TEST(PlyPoints, OtherElementsAndBigEndian) {
  const test::TemporaryFolder folder;
  test::write_text(
      folder / "a.ply",
      "ply\r\nformat ascii 1.0\r\nelement camera 1\r\nproperty list uchar int i\r\nelement vertex 2\r\n"
      "property uchar red\r\nproperty double z\r\nproperty float y\r\nproperty float x\r\n"
      "element face 1\r\nproperty list uchar int vertex_indices\r\nend_header\r\n"
      "2 5 6\r\n255 3 2 1\r\n0 6 5 4\r\n3 0 1 1\r\n");
  EXPECT_THAT(read_ply_points(folder / "a.ply"),
              ElementsAre(Eigen::Vector3d(1, 2, 3), Eigen::Vector3d(4, 5, 6)));
  test::write_text(folder / "b.ply",
                   std::string("ply\nformat binary_big_endian 1.0\nelement vertex 1\nproperty float x\n"
                               "property float y\nproperty float z\nend_header\n") +
                       std::string("\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0", 12));
  EXPECT_THAT(read_ply_points(folder / "b.ply"), ElementsAre(Eigen::Vector3d(1, 2, 3)));
}

TEST(PlyPoints, Refusals) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "x.ply", text);
    return refusal([&] { read_ply_points(folder / "x.ply"); });
  };
  const auto vertices = [](const std::string& encoding, const std::string& count) {
    return "ply\nformat " + encoding + " 1.0\nelement vertex " + count +
           "\nproperty float x\nproperty float y\nproperty float z\nend_header\n";
  };
  const std::string binary = "binary_little_endian";
  EXPECT_THAT(refused(""), HasSubstr("x.ply: it ends too early"));
  EXPECT_THAT(refused("plyx\n"), HasSubstr("not a PLY"));
  EXPECT_THAT(refused("ply\nformat ascii 1.0\nelement vertex 1\n"), HasSubstr("too early"));
  EXPECT_THAT(refused("ply\nend_header\n"), HasSubstr("no vertices"));
  EXPECT_THAT(refused("ply\nformat weird 1.0\n"), HasSubstr("'weird'"));
  EXPECT_THAT(refused("ply\nproperty float x\n"), HasSubstr("before the first element"));
  EXPECT_THAT(refused("ply\nelement vertex 1\nproperty float x\nend_header\n0\n"), HasSubstr("no x, y, z"));
  EXPECT_THAT(refused("ply\nelement vertex 1\nproperty blob x\nend_header\n"), HasSubstr("'blob'"));
  EXPECT_THAT(
      refused("ply\nformat binary_little_endian 1.0\nelement face 1\nproperty list uchar int i\nelement "
              "vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"),
      HasSubstr("list before"));
  EXPECT_THAT(
      refused("ply\nformat binary_little_endian 1.0\nelement a 9999999999999999999\nproperty int i\nelement "
              "vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"),
      HasSubstr("too early"));
  EXPECT_THAT(refused(vertices(binary, "18446744073709551615")),
              HasSubstr("too early for its 18446744073709551615"));
  EXPECT_THAT(refused(vertices(binary, "-1")), HasSubstr("'-1'"));
  EXPECT_THAT(refused(vertices(binary, "1") + "12345678901"), HasSubstr("too early"));
  EXPECT_THAT(refused(vertices(binary, "1") + bytes_of<float>({1, NAN, 2})),
              HasSubstr("point 0 is not finite"));
  EXPECT_THAT(refused(vertices("ascii", "18446744073709551615") + "1 2 3\n"), HasSubstr("too early"));
  EXPECT_THAT(refused(vertices("ascii", "1") + "1 2\n"), HasSubstr("is not a number"));
  EXPECT_THAT(refused(vertices("ascii", "1") + "1 inf 2\n"), HasSubstr("not finite"));
}

TEST(NearestDistances, AreEuclidean) {
  EXPECT_THAT(nearest_distances({{0, 0, 0}, {5, 0, 0}}, {{3, 4, 0}, {4, 0, 0}}), ElementsAre(4, 1));
}

}  // namespace
}  // namespace vggt
