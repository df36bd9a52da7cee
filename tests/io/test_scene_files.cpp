// Scene files are read back by us and by others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <open3d/geometry/PointCloud.h>
#include <open3d/io/PointCloudIO.h>

#include <Eigen/Geometry>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "io/scene/cameras_json.h"
#include "io/scene/ply.h"
#include "io/scene/point_filters.h"
#include "io/scene/tum.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

PointCloud random_cloud(std::size_t count, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  PointCloud cloud;
  for (std::size_t i = 0; i < count; ++i) {
    cloud.points.emplace_back(normal(random), normal(random), 5 + normal(random));
    cloud.colors.emplace_back(random() % 256, random() % 256, random() % 256);
  }
  return cloud;
}

FrameCamera camera_at(double time_s, double angle) {
  FrameCamera frame{"frame " + std::to_string(time_s) + ".jpg", time_s};
  Camera& camera = frame.camera;
  camera.width = 518;
  camera.height = 392;
  camera.original_width = 4000;
  camera.original_height = 3000;
  camera.map.scale_x = 518.0 / 4000;
  camera.map.scale_y = 392.0 / 3010;
  camera.map.pad_x = 12;
  camera.map.pad_y = -30;
  camera.k << 500.5, 0, 259, 0, 501.25, 196, 0, 0, 1;
  const Eigen::Vector3d axis = Eigen::Vector3d(0.3, -1, 0.2).normalized();
  camera.cam_from_world.linear() = Eigen::AngleAxisd(angle, axis).toRotationMatrix();
  camera.cam_from_world.translation() << 0.1 * angle, -1.0 / 3, 2e-7;
  frame.mean_confidence = 3.75;
  return frame;
}

TEST(Ply, ReadByOpen3d) {
  const test::TemporaryFolder folder;
  const PointCloud cloud = random_cloud(1000);
  write_ply(folder / "a.ply", cloud);
  EXPECT_EQ(folder.file_count(), 1U);
  open3d::geometry::PointCloud read;
  ASSERT_TRUE(open3d::io::ReadPointCloud((folder / "a.ply").string(), read));
  ASSERT_EQ(read.points_.size(), cloud.points.size());
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    ASSERT_EQ(read.points_[i], cloud.points[i].cast<double>());
    ASSERT_TRUE((read.colors_[i] * 255).isApprox(cloud.colors[i].cast<double>(), 1e-9));
  }
  write_ply(folder / "empty.ply", {});
  EXPECT_THAT(test::read_bytes(folder / "empty.ply").size(), testing::Gt(100U));
}

TEST(Ply, RefusesWhatIsNotFinite) {
  const test::TemporaryFolder folder;
  PointCloud cloud = random_cloud(3);
  cloud.points[1].y() = static_cast<float>(kNan);
  EXPECT_THROW(write_ply(folder / "a.ply", cloud), std::invalid_argument);
  cloud = random_cloud(3);
  cloud.colors.pop_back();
  EXPECT_THROW(write_ply(folder / "a.ply", cloud), std::invalid_argument);
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(PlyWriter, PartsInAnyOrderMakeTheSameFile) {
  const test::TemporaryFolder folder;
  const PointCloud cloud = random_cloud(1000);
  write_ply(folder / "whole.ply", cloud);
  const auto part = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
    return PointCloud{{cloud.points.begin() + first, cloud.points.begin() + last},
                      {cloud.colors.begin() + first, cloud.colors.begin() + last}};
  };
  {
    PlyWriter writer(folder / "parts.ply", 1000);
    writer.write(700, part(700, 1000));
    EXPECT_THROW(writer.close(), std::logic_error);
    writer.write(0, part(0, 699));
    writer.write(699, part(699, 700));
    EXPECT_THROW(writer.write(999, part(0, 2)), std::logic_error);
    PointCloud bad = part(0, 1);
    bad.points[0].x() = static_cast<float>(kNan);
    EXPECT_THROW(writer.write(0, bad), std::invalid_argument);
    writer.close();
  }
  EXPECT_EQ(test::read_bytes(folder / "parts.ply"), test::read_bytes(folder / "whole.ply"));
  { PlyWriter abandoned(folder / "abandoned.ply", 5); }
  EXPECT_EQ(folder.file_count(), 2U);
  EXPECT_THROW(PlyWriter(folder / "absent/a.ply", 1), std::system_error);
}

TEST(CamerasJson, HoldsEverythingAndNothingThatIsNotFinite) {
  const test::TemporaryFolder folder;
  FrameCamera broken = camera_at(2, 0.5);
  broken.camera.valid = false;
  broken.file = "odd \xFF name \"x\"";
  broken.time_s.reset();
  broken.camera.k(0, 0) = std::numeric_limits<double>::infinity();
  broken.camera.cam_from_world(1, 2) = kNan;
  broken.mean_confidence = -std::numeric_limits<double>::infinity();
  const FrameCamera good = camera_at(1.5, -2);
  write_cameras_json(folder / "c.json", {good, broken});
  const auto bytes = test::read_bytes(folder / "c.json");
  const json read = json::parse(bytes).at("cameras");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0]["file"], good.file);
  EXPECT_EQ(read[0]["time_s"], 1.5);
  EXPECT_EQ(read[0]["valid"], true);
  EXPECT_EQ(read[0]["original_size"], json({4000, 3000}));
  EXPECT_EQ(read[0]["network_size"], json({518, 392}));
  EXPECT_EQ(read[0]["mean_confidence"], 3.75);
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      EXPECT_EQ(read[0]["cam_from_world"][r][c], good.camera.cam_from_world(r, c));
      if (r == 3 || c == 3) continue;
      EXPECT_EQ(read[0]["k_network"][r][c], good.camera.k(r, c));
      EXPECT_EQ(read[0]["k_original"][r][c], good.camera.k_original()(r, c));
    }
  }
  EXPECT_EQ(read[1]["valid"], false);
  EXPECT_TRUE(read[1]["time_s"].is_null());
  EXPECT_TRUE(read[1]["k_network"][0][0].is_null());
  EXPECT_TRUE(read[1]["cam_from_world"][1][2].is_null());
  EXPECT_TRUE(read[1]["mean_confidence"].is_null());
  EXPECT_EQ(read[1]["k_network"][1][1], 501.25);
}

TEST(Intrinsics, RaysAreTheSameInBothImages) {
  const Camera camera = camera_at(0, 0).camera;
  const PixelMap& map = camera.map;
  const Eigen::Matrix3d &network = camera.k, original = camera.k_original();
  EXPECT_NEAR(original(0, 0), 500.5 * 4000 / 518, 1e-9);
  EXPECT_NEAR(original(0, 2), (259 + 0.5 - 12) / map.scale_x - 0.5, 1e-9);
  for (const Eigen::Vector3d& point : {Eigen::Vector3d(0.3, -0.2, 1.5), Eigen::Vector3d(-1, 2, 4)}) {
    const Eigen::Vector3d n = network * point, o = original * point;
    EXPECT_NEAR(map.original_x(n.x() / n.z()), o.x() / o.z(), 1e-9);
    EXPECT_NEAR(map.original_y(n.y() / n.z()), o.y() / o.z(), 1e-9);
  }
}

TEST(Tum, RoundTrip) {
  const test::TemporaryFolder folder;
  std::vector<FrameCamera> cameras;
  for (int i = 0; i < 40; ++i) cameras.push_back(camera_at(i / 3.0, 0.17 * i));
  cameras[7].camera.valid = false;
  cameras[7].camera.cam_from_world(0, 0) = kNan;
  write_tum(folder / "t.tum", cameras);
  const std::vector<FrameCamera> read = read_tum(folder / "t.tum");
  ASSERT_EQ(read.size(), 39U);
  cameras.erase(cameras.begin() + 7);
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].time_s, cameras[i].time_s);
    const Eigen::Matrix4d product =
        (read[i].camera.cam_from_world * cameras[i].camera.cam_from_world.inverse()).matrix();
    EXPECT_TRUE(product.isIdentity(1e-14)) << product;
    EXPECT_FALSE(read[i].camera.has_intrinsics());
  }
  std::ifstream file(folder / "t.tum");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<double> values{std::istream_iterator<double>(words), {}};
    ASSERT_EQ(values.size(), 8U);
    EXPECT_GE(values[7], 0);
    EXPECT_NEAR(Eigen::Map<Eigen::Vector4d>(&values[4]).norm(), 1, 1e-15);
  }
}

TEST(Tum, ErrorsNamePathAndLine) {
  const test::TemporaryFolder folder;
  const auto error_of = [&](const std::string& line) {
    test::write_text(folder / "t.tum", "# time x y z qx qy qz qw\n\n1 0 0 0 0 0 0 2\n" + line + "\n");
    try {
      return std::to_string(read_tum(folder / "t.tum").size());
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(error_of("  # nothing"), "1");
  EXPECT_EQ(error_of("2 0 0 0 0 0 0 1 # good\r"), "2");
  EXPECT_THAT(error_of("2 0 0 0 0 0 1"), HasSubstr("t.tum:4: has fewer than 8"));
  EXPECT_THAT(error_of("2 0 0 0 0 0 0 1 9"), HasSubstr("t.tum:4: has more than 8"));
  EXPECT_THAT(error_of("2 0 0 0 0 0 0 1x"), HasSubstr("'1x' is not a number"));
  EXPECT_THAT(error_of("2 0 0 nan 0 0 0 1"), HasSubstr("not finite"));
  EXPECT_THAT(error_of("2 0 0 0 0 0 0 0"), HasSubstr("quaternion"));
  EXPECT_THROW(read_tum(folder / "absent.tum"), std::system_error);
  FrameCamera camera = camera_at(1, 1);
  camera.camera.cam_from_world(2, 3) = kNan;
  EXPECT_THROW(write_tum(folder / "u.tum", {camera}), std::invalid_argument);
  camera = camera_at(1, 1);
  camera.time_s.reset();
  EXPECT_THROW(write_tum(folder / "u.tum", {camera}), std::invalid_argument);
}

TEST(VoxelDownsample, OnePointPerVoxelWithAverages) {
  PointCloud cloud;
  for (int i = 0; i < 4; ++i) {
    cloud.points.emplace_back(0.1F * static_cast<float>(i), 0, 0);
    cloud.colors.emplace_back(10 * i, 255, 0);
  }
  cloud.points.emplace_back(10, 0, 0);
  cloud.colors.emplace_back(1, 2, 3);
  const PointCloud sparse = voxel_downsample(cloud, 1);
  ASSERT_EQ(sparse.points.size(), 2U);
  const std::size_t near = sparse.points[0].x() < 5 ? 0 : 1;
  EXPECT_TRUE(sparse.points[near].isApprox(Eigen::Vector3f(0.15F, 0, 0), 1e-6F));
  EXPECT_EQ(sparse.colors[near], (Eigen::Matrix<uint8_t, 3, 1>(15, 255, 0)));
  EXPECT_EQ(sparse.colors[1 - near], (Eigen::Matrix<uint8_t, 3, 1>(1, 2, 3)));
}

TEST(VoxelDownsample, ExtremesAreSafe) {
  EXPECT_TRUE(voxel_downsample({}, 0.1).points.empty());
  EXPECT_EQ(voxel_downsample(random_cloud(1), 0.1).points.size(), 1U);
  EXPECT_EQ(voxel_downsample(random_cloud(50), 1e6).points.size(), 1U);
  EXPECT_THROW(voxel_downsample(random_cloud(50), 1e-12), std::invalid_argument);
  EXPECT_THROW(voxel_downsample(random_cloud(50), 0), std::invalid_argument);
  EXPECT_THROW(voxel_downsample(random_cloud(50), kNan), std::invalid_argument);
  PointCloud far = random_cloud(2);
  far.points[0].setConstant(std::numeric_limits<float>::max());
  far.points[1].setConstant(std::numeric_limits<float>::lowest());
  EXPECT_THROW(voxel_downsample(far, 0.1), std::invalid_argument);
  PointCloud broken = random_cloud(3);
  broken.points[0].x() = std::numeric_limits<float>::infinity();
  EXPECT_THROW(voxel_downsample(broken, 0.1), std::invalid_argument);
  EXPECT_THROW(remove_outliers(broken, 2, 1), std::invalid_argument);
}

TEST(RemoveOutliers, DropsTheFarPointOnly) {
  PointCloud cloud = random_cloud(500);
  cloud.points[123] << 100, 100, 100;
  const PointCloud kept = remove_outliers(cloud, 20, 3);
  EXPECT_GT(kept.points.size(), 480U);
  EXPECT_LT(kept.points.size(), 500U);
  ASSERT_EQ(kept.points.size(), kept.colors.size());
  std::size_t from = 0;
  for (std::size_t i = 0; i < kept.points.size(); ++i, ++from) {
    EXPECT_LT(kept.points[i].x(), 50);
    while (cloud.points.at(from) != kept.points[i])
      ++from;  // the order stays, and colours stay with their points
    EXPECT_EQ(kept.colors[i], cloud.colors[from]);
  }
}

TEST(RemoveOutliers, TinyAndUniformCloudsStay) {
  for (const std::size_t count : {0U, 1U, 2U, 5U, 20U}) {
    EXPECT_EQ(remove_outliers(random_cloud(count), 20, 2).points.size(), count);
  }
  PointCloud same = random_cloud(50);
  for (auto& point : same.points) point.setOnes();
  EXPECT_EQ(remove_outliers(same, 20, 2).points.size(), 50U);
  EXPECT_THROW(remove_outliers(same, 0, 2), std::invalid_argument);
  EXPECT_THROW(remove_outliers(same, 20, 0), std::invalid_argument);
}

TEST(NearestDistances, AreEuclidean) {
  EXPECT_THAT(nearest_distances({{0, 0, 0}, {5, 0, 0}}, {{3, 4, 0}, {4, 0, 0}}), testing::ElementsAre(4, 1));
}

}  // namespace
}  // namespace vggt
