// Files for other programs: what stands in them, read back by us and by OpenCV. Foreign programs read them in
// tests/app/test_foreign_readers.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "io/scene/cameras_json.h"
#include "io/scene/colmap_binary.h"
#include "io/scene/colmap_model.h"
#include "io/scene/colmap_text.h"
#include "io/scene/depth_files.h"
#include "io/scene/depth_images.h"
#include "io/scene/glb.h"
#include "io/scene/kitti.h"
#include "io/scene/ply.h"
#include "io/scene/transforms_json.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = test::read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

FrameCamera image(const std::string& name, int id, CameraModel model, double angle) {
  FrameCamera frame{name};
  Camera& camera = frame.camera;
  camera.width = 640;
  camera.height = 480;
  camera.k << 500, 0, 319.5, 0, 500, 239.5, 0, 0, 1;
  camera.model = model;
  camera.camera_id = id;
  camera.cam_from_world.linear() = Eigen::AngleAxisd(angle, Eigen::Vector3d::UnitY()).toRotationMatrix();
  camera.cam_from_world.translation() << angle, 0, 1;
  return frame;
}

ExportedScene scene() {
  ExportedScene scene;
  scene.images = {image("a.jpg", 4, CameraModel::simple_radial, 0),
                  image("b/b.jpg", -1, CameraModel::pinhole, .25),
                  image("c.jpg", 4, CameraModel::simple_radial, -2)};
  scene.images[0].camera.distortion << -.05, 0;
  scene.images[1].camera.k(1, 1) = 501;
  scene.tracks = {{{1, 2, 3}, {10, 20, 30}, .5, {{0, {5, 6}}, {2, {7, 8}}}},
                  {{-1, 0, 4}, {1, 2, 3}, .25, {{1, {1, 1}}, {2, {100.5, 3}}}}};
  scene.points = {{{9, 9, 9}}, {{7, 8, 9}}};
  return scene;
}

TEST(ColmapModel, TextSaysWhatIsKnown) {
  const test::TemporaryFolder folder;
  write_colmap_model(folder.path(), scene());
  EXPECT_THAT(text_of(folder / "cameras.txt"),
              HasSubstr("\n1 SIMPLE_RADIAL 640 480 500 320 240 -0.05\n2 PINHOLE 640 480 500 501 320 240\n"));
  const std::string images = text_of(folder / "images.txt");
  EXPECT_THAT(images, HasSubstr("\n1 1 0 0 0 0 0 1 1 a.jpg\n5.5 6.5 1\n2 "));
  EXPECT_THAT(images, HasSubstr(" 2 b/b.jpg\n1.5 1.5 2\n3 "));
  EXPECT_THAT(images, HasSubstr(" 1 c.jpg\n7.5 8.5 1 101 3.5 2\n"));
  EXPECT_THAT(text_of(folder / "points3D.txt"),
              HasSubstr("\n1 1 2 3 10 20 30 0.5 1 0 3 0\n2 -1 0 4 1 2 3 0.25 2 0 3 1\n3 9 9 9 7 8 9 0\n"));
  const std::vector<FrameCamera> read = read_colmap_images(folder / "images.txt");
  ASSERT_EQ(read.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(read[i].camera.cam_from_world.isApprox(scene().images[i].camera.cam_from_world, 1e-12));
  }
}

/// Takes values off the front of a binary file.
struct Bytes {
  std::string rest;
  template <class Value>
  Value take() {
    Value value;
    std::memcpy(&value, rest.data(), sizeof value);
    rest.erase(0, sizeof value);
    return value;
  }
};

TEST(ColmapModel, BinaryFilesHoldTheSame) {
  const test::TemporaryFolder folder;
  write_colmap_model(folder.path(), scene());
  Bytes cameras{text_of(folder / "cameras.bin")};
  EXPECT_EQ(cameras.take<uint64_t>(), 2U);
  EXPECT_EQ(cameras.take<uint32_t>(), 1U);
  EXPECT_EQ(cameras.take<int32_t>(), 2);  // SIMPLE_RADIAL
  EXPECT_EQ(cameras.take<uint64_t>(), 640U);
  EXPECT_EQ(cameras.take<uint64_t>(), 480U);
  for (const double parameter : {500., 320., 240., -.05}) EXPECT_EQ(cameras.take<double>(), parameter);
  EXPECT_EQ(cameras.take<uint32_t>(), 2U);
  EXPECT_EQ(cameras.take<int32_t>(), 1);  // PINHOLE
  EXPECT_EQ(cameras.rest.size(), 2 * 8 + 4 * 8U);
  Bytes images{text_of(folder / "images.bin")};
  EXPECT_EQ(images.take<uint64_t>(), 3U);
  EXPECT_EQ(images.take<uint32_t>(), 1U);
  for (const double value : {1., 0., 0., 0., 0., 0., 1.}) EXPECT_EQ(images.take<double>(), value);
  EXPECT_EQ(images.take<uint32_t>(), 1U);
  EXPECT_EQ(images.rest.substr(0, 6), std::string("a.jpg\0", 6));
  images.rest.erase(0, 6);
  EXPECT_EQ(images.take<uint64_t>(), 1U);
  EXPECT_EQ(images.take<double>(), 5.5);
  EXPECT_EQ(images.take<double>(), 6.5);
  EXPECT_EQ(images.take<uint64_t>(), 1U);
  Bytes points{text_of(folder / "points3D.bin")};
  EXPECT_EQ(points.take<uint64_t>(), 3U);
  EXPECT_EQ(points.rest.size(), 3 * (8 + 3 * 8 + 3 + 8 + 8) + 4 * 8U);
}

TEST(ColmapModel, BinaryFilesAreReadAsTheText) {
  const test::TemporaryFolder folder;
  write_colmap_model(folder.path(), scene());
  const std::vector<FrameCamera> text = read_colmap_images(folder / "images.txt"),
                                 binary = read_colmap_binary(folder / "images.bin");
  ASSERT_EQ(binary.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(binary[i].file, text[i].file);
    EXPECT_TRUE(binary[i].as_stored);
    const Camera &a = binary[i].camera, &b = text[i].camera;
    EXPECT_TRUE(a.cam_from_world.isApprox(b.cam_from_world, 1e-15));
    EXPECT_EQ(a.k, b.k);
    EXPECT_EQ(a.distortion, b.distortion);
    EXPECT_EQ(a.model, b.model);
    EXPECT_EQ(a.width, 640);
    EXPECT_EQ(a.height, 480);
    EXPECT_EQ(a.camera_id, b.camera_id);
  }
  EXPECT_EQ(binary[0].camera.camera_id, binary[2].camera.camera_id);
  EXPECT_NE(binary[0].camera.camera_id, binary[1].camera.camera_id);
  std::filesystem::remove(folder / "cameras.bin");
  EXPECT_FALSE(read_colmap_binary(folder / "images.bin").at(0).camera.has_intrinsics());
}

TEST(ColmapModel, DamagedBinaryFilesAreRefused) {
  const test::TemporaryFolder folder;
  write_colmap_model(folder.path(), scene());
  const std::string images = text_of(folder / "images.bin"), cameras = text_of(folder / "cameras.bin");
  const auto message = [&] { return refusal([&] { read_colmap_binary(folder / "images.bin"); }); };
  for (std::size_t size = 0; size < images.size(); ++size) {
    test::write_text(folder / "images.bin", images.substr(0, size));
    EXPECT_THAT(message(), HasSubstr("images.bin: as COLMAP's binary file: it ends too early")) << size;
  }
  const auto with = [&](std::size_t at, auto value) {
    std::string changed = images;
    std::memcpy(&changed[at], &value, sizeof value);
    return changed;
  };
  constexpr std::size_t kQuaternion = 12, kName = kQuaternion + 7 * 8 + 4, kSightings = kName + 6;
  for (const auto& [text, words] :
       {std::pair(images + "x", "goes on after its last record"),
        {with(0, uint64_t{1} << 63), "ends too early"},
        {with(kQuaternion, std::nan("")), "not finite"},
        {with(kQuaternion, 0.), "quaternion"},
        {with(kSightings, uint64_t{1} << 61), "ends too early"},
        {images.substr(0, kName) + std::string(9000, 'a'), "a name has no end"}}) {
    test::write_text(folder / "images.bin", text);
    EXPECT_THAT(message(), HasSubstr(words));
  }
  test::write_text(folder / "images.bin", images);
  std::string changed = cameras;
  changed[12] = 99;
  test::write_text(folder / "cameras.bin", changed);
  EXPECT_THAT(message(),
              HasSubstr("cameras.bin: as COLMAP's binary file: no camera model has the number 99"));
  changed[12] = 5;  // OPENCV_FISHEYE, whose lens is not known whole
  test::write_text(folder / "cameras.bin", changed);
  EXPECT_THAT(message(), HasSubstr("cameras.bin"));
}

TEST(TransformsJson, IsReadBack) {
  const test::TemporaryFolder folder;
  const auto frame = [](double angle) { return image("images/a.jpg", 1, CameraModel::radial, angle); };
  write_transforms_json(folder / "t.json", {{frame(0), ""}, {frame(.5), "../depth/a.png"}}, "points.ply");
  const json shared = json::parse(text_of(folder / "t.json"));
  EXPECT_EQ(shared["cx"], 320);
  EXPECT_EQ(shared["cy"], 240);
  EXPECT_EQ(shared["ply_file_path"], "points.ply");
  EXPECT_FALSE(shared["frames"][0].contains("fl_x"));
  EXPECT_FALSE(shared["frames"][0].contains("depth_file_path"));
  EXPECT_EQ(shared["frames"][1]["depth_file_path"], "../depth/a.png");
  const std::vector<FrameCamera> read = read_cameras_json(folder / "t.json");
  ASSERT_EQ(read.size(), 2U);
  for (const std::size_t i : {0, 1}) {
    EXPECT_TRUE(read[i].camera.cam_from_world.isApprox(
        frame(.5 * static_cast<double>(i)).camera.cam_from_world, 1e-12));
    EXPECT_EQ(read[i].camera.k(0, 0), 500);
  }
  FrameCamera other = frame(1);
  other.camera.distortion << .1, .01;
  write_transforms_json(folder / "t.json", {{frame(0), ""}, {other, ""}}, "");
  const json apart = json::parse(text_of(folder / "t.json"));
  EXPECT_FALSE(apart.contains("fl_x"));
  EXPECT_EQ(apart["frames"][1]["k1"], .1);
  EXPECT_EQ(apart["frames"][1]["k2"], .01);
  EXPECT_EQ(apart["frames"][0]["k1"], 0);
}

TEST(Kitti, HasALineForEachValidCamera) {
  const test::TemporaryFolder folder;
  FrameCamera lost = image("b", -1, CameraModel::pinhole, 1);
  lost.camera.valid = false;
  write_kitti(folder / "k.txt",
              {image("a", -1, CameraModel::pinhole, 0), lost, image("c", -1, CameraModel::pinhole, .5)});
  std::istringstream lines(text_of(folder / "k.txt"));
  Eigen::Matrix4d pose = Eigen::Matrix4d::Identity();
  for (const double angle : {0., .5}) {
    for (int i = 0; i < 12; ++i) lines >> pose(i / 4, i % 4);
    EXPECT_TRUE(pose.isApprox(
        image("", 0, CameraModel::pinhole, angle).camera.cam_from_world.inverse().matrix(), 1e-12));
  }
  std::string more;
  EXPECT_FALSE(lines >> more);
}

std::vector<float> slope(int width, int height) {
  std::vector<float> values;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x)
      values.push_back(
          (x + y) % 5 == 0 ? 0.F : .5F + .01F * static_cast<float>(x) + 1.F / static_cast<float>(y + 1));
  }
  return values;
}

/// Rows of values that stay.
ValueMap map_of(int width, int height, const std::vector<float>& values) {
  return {width, height, [&values](int y, std::span<float> row) {
            std::ranges::copy(std::span(values).subspan(static_cast<std::size_t>(y) * row.size(), row.size()),
                              row.begin());
          }};
}

TEST(MapFiles, PngIsInUnits) {
  const test::TemporaryFolder folder;
  const std::vector<float> values{0, 1, 1.0004F, 65.535F, 66, NAN, INFINITY, -1, 1e-9F};
  write_map_png(folder / "m.png", map_of(9, 1, values), .001);
  const DepthMap read = read_depth_png(folder / "m.png", .001);
  EXPECT_THAT(read.values, ElementsAre(0, 1, 1, 65.535F, 0, 0, 0, 0, .001F));
}

TEST(MapFiles, NpyAndExrAreExact) {
  const test::TemporaryFolder folder;
  for (const auto& [width, height] : {std::pair(1, 1), {37, 50}, {200, 16}, {5, 17}}) {
    const std::vector<float> values = slope(width, height);
    write_map_npy(folder / "m.npy", map_of(width, height, values));
    const std::vector<DepthMap> read = read_depth_npy(folder / "m.npy");
    ASSERT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].width, width);
    EXPECT_EQ(read[0].values, values);
    write_map_exr(folder / "m.exr", map_of(width, height, values));
    const cv::Mat exr = cv::imread((folder / "m.exr").string(), cv::IMREAD_UNCHANGED);
    ASSERT_EQ(exr.type(), CV_32FC1);
    ASSERT_EQ(exr.size(), cv::Size(width, height));
    EXPECT_EQ(std::vector<float>(exr.begin<float>(), exr.end<float>()), values);
  }
}

TEST(Glb, IsWhatItsHeaderSays) {
  const test::TemporaryFolder folder;
  const PointCloud cloud{{{0, 1, 2}, {3, -4, 5}, {1, 1, 1}}, {{0, 128, 255}, {255, 255, 255}, {9, 9, 9}}};
  write_glb(folder / "s.glb", cloud, {{{0, 0, 0}, {1, 0, 0}, {255, 0, 0}}});
  Bytes file{text_of(folder / "s.glb")};
  const std::size_t size = file.rest.size();
  EXPECT_EQ(file.take<uint32_t>(), 0x46546C67U);
  EXPECT_EQ(file.take<uint32_t>(), 2U);
  EXPECT_EQ(file.take<uint32_t>(), size);
  const auto json_bytes = file.take<uint32_t>();
  EXPECT_EQ(json_bytes % 4, 0U);
  EXPECT_EQ(file.take<uint32_t>(), 0x4E4F534AU);
  const json document = json::parse(file.rest.substr(0, json_bytes));
  file.rest.erase(0, json_bytes);
  const auto binary_bytes = file.take<uint32_t>();
  EXPECT_EQ(binary_bytes, file.rest.size() - 4);
  EXPECT_EQ(file.take<uint32_t>(), 0x004E4942U);
  EXPECT_EQ(document["buffers"][0]["byteLength"], file.rest.size());
  EXPECT_EQ(document["accessors"][0]["min"], json({0, -4, 1}));
  EXPECT_EQ(document["accessors"][0]["max"], json({3, 1, 5}));
  EXPECT_EQ(document["accessors"][2]["count"], 2);
  float first[3];
  std::memcpy(first, file.rest.data(), sizeof first);
  EXPECT_THAT(first, ElementsAre(0, 1, 2));
  float rgb[3];
  std::memcpy(rgb, file.rest.data() + 36, sizeof rgb);
  EXPECT_THAT(rgb, ElementsAre(0, testing::FloatNear(.215861F, 1e-6F), 1));  // linear: less than 128/255
  write_glb(folder / "empty.glb", {}, {});
  EXPECT_GT(test::read_bytes(folder / "empty.glb").size(), 20U);
}

TEST(PlyNormals, StandBetweenPositionAndColour) {
  const test::TemporaryFolder folder;
  PointCloud cloud{{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}, {{0, 0, 1}, {0, -1, 0}}};
  write_ply(folder / "n.ply", cloud);
  const std::string text = text_of(folder / "n.ply");
  EXPECT_THAT(
      text,
      HasSubstr("float z\nproperty float nx\nproperty float ny\nproperty float nz\nproperty uchar red"));
  const std::string vertices = text.substr(text.find("end_header\n") + 11);
  ASSERT_EQ(vertices.size(), 54U);
  EXPECT_EQ(vertices.substr(12, 15), test::bytes_of<float>({0, 0, 1}) + "\x07\x08\x09");
  EXPECT_EQ(read_ply_points(folder / "n.ply")[1], Eigen::Vector3d(4, 5, 6));
  PlyWriter writer(folder / "parts.ply", 2, true);
  writer.write(0, cloud);
  cloud.normals.pop_back();
  EXPECT_THROW(writer.write(0, cloud), std::invalid_argument);
  writer.close();
  EXPECT_EQ(text_of(folder / "parts.ply"), text);
}

TEST(PlySample, IsSpreadOverTheFile) {
  const test::TemporaryFolder folder;
  PointCloud cloud;
  for (int i = 0; i < 1000; ++i) {
    cloud.points.emplace_back(i, -i, 0);
    cloud.colors.emplace_back(i % 256, 1, 2);
  }
  for (const bool normals : {false, true}) {
    if (normals) cloud.normals.assign(1000, {1, 0, 0});
    write_ply(folder / "c.ply", cloud);
    const PointCloud some = sample_ply(folder / "c.ply", 10);
    ASSERT_EQ(some.points.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(static_cast<std::size_t>(some.points[i].x()) / 100, i);
      EXPECT_EQ(some.points[i].y(), -some.points[i].x());
      EXPECT_EQ(some.colors[i][0], static_cast<int>(some.points[i].x()) % 256);
    }
    EXPECT_EQ(sample_ply(folder / "c.ply", 5000).points, cloud.points);
  }
  test::write_text(folder / "bad.ply", "ply\nformat ascii 1.0\nend_header\n");
  EXPECT_THAT(refusal([&] { sample_ply(folder / "bad.ply", 3); }), HasSubstr("bad.ply: not a PLY file"));
}

TEST(CamerasJsonLens, ModelAndDistortionAreReadBack) {
  const test::TemporaryFolder folder;
  FrameCamera frame = image("a", 1, CameraModel::radial, .1);
  frame.camera.original_width = 640;
  frame.camera.original_height = 480;
  frame.camera.distortion << -.1, .02;
  write_cameras_json(folder / "c.json", {frame});
  json all = json::parse(text_of(folder / "c.json"));
  EXPECT_EQ(all["cameras"][0]["model"], "RADIAL");
  EXPECT_EQ(all["cameras"][0]["distortion"], json({-.1, .02}));
  EXPECT_EQ(read_cameras_json(folder / "c.json")[0].camera.distortion, frame.camera.distortion);
  EXPECT_EQ(read_cameras_json(folder / "c.json")[0].camera.model, CameraModel::radial);
  all["cameras"][0]["model"] = "FISHEYE";
  test::write_text(folder / "c.json", all.dump());
  EXPECT_THAT(refusal([&] { read_cameras_json(folder / "c.json"); }), HasSubstr("`model` is 'FISHEYE'"));
  all["cameras"][0].erase("model");
  all["cameras"][0]["distortion"] = {1};
  test::write_text(folder / "c.json", all.dump());
  EXPECT_THAT(refusal([&] { read_cameras_json(folder / "c.json"); }), HasSubstr("not [k1, k2]"));
  all["cameras"][0].erase("distortion");  // as files of before
  test::write_text(folder / "c.json", all.dump());
  EXPECT_FALSE(read_cameras_json(folder / "c.json")[0].camera.is_distorted());
}

}  // namespace
}  // namespace vggt
