// Points from PLY files of every encoding, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <open3d/geometry/PointCloud.h>
#include <open3d/io/PointCloudIO.h>

#include <cmath>

#include "io/scene/ply.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using test::bytes_of;
using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace vggt
