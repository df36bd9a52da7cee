// What the C interface hands out is what the program writes to files.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "app/run/reconstruct.h"
#include "io/scene/cameras_json.h"
#include "io/scene/ply.h"
#include "io/scene/prediction_reader.h"
#include "tests/support/c_api.h"
#include "tests/support/media.h"
#include "tests/support/runs.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using namespace testing;

/// The files of the same run as the program makes them.
Reconstruction files_of_program(const fs::path& out, const char* bundle_adjust = "auto") {
  Options options = small_model();
  options.device = "cpu";
  options.bundle_adjust = bundle_adjust;
  options.out = out.string() + "/";
  options.save_predictions = (out / "predictions.safetensors").string();
  return reconstruct(plan_run(options), {});
}

TEST(CApi, ArraysEqualTheProgramsFiles) {
  const test::TemporaryFolder folder;
  const Reconstruction expected = files_of_program(folder / "a", "off");
  const ContextHandle context = small_context();
  ASSERT_EQ(vggt_recon_set_option(context.get(), "bundle-adjust", "off"), VGGT_RECON_DONE);
  const SceneHandle scene = run(context, input_of());
  ASSERT_NE(scene, nullptr);
  const Copied copy = copy_of(scene);

  std::vector<float> points;
  for (const Eigen::Vector3d& point : read_ply_points(folder / "a/scene.ply"))
    for (const double x : point) points.push_back(static_cast<float>(x));
  EXPECT_GT(points.size(), 3000u);
  EXPECT_EQ(copy.points, points);
  std::vector<float> depth;
  for (const DepthMap& map : PredictionFile(folder / "a/predictions.safetensors").depth(0))
    depth.insert(depth.end(), map.values.begin(), map.values.end());
  EXPECT_EQ(copy.depth, depth);
  EXPECT_TRUE(std::ranges::all_of(copy.confidence, [](float value) { return value >= 1; }));

  std::size_t count = 0, shape[3];
  vggt_recon_depth(scene.get(), shape);
  EXPECT_EQ(shape[0], 3u);
  EXPECT_EQ(shape[2], 112u);
  const vggt_recon_camera* cameras = vggt_recon_cameras(scene.get(), &count);
  ASSERT_EQ(count, expected.cameras.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Camera& camera = expected.cameras[i].camera;
    EXPECT_EQ(cameras[i].name, expected.cameras[i].file);
    EXPECT_EQ(cameras[i].width, camera.original_width);
    EXPECT_EQ(cameras[i].network_height, static_cast<int>(shape[1]));
    EXPECT_EQ(cameras[i].intrinsics[0], camera.k_original()(0, 0));
    EXPECT_EQ(cameras[i].intrinsics[5], camera.k_original()(1, 2));
    EXPECT_EQ(cameras[i].cam_from_world[3], camera.cam_from_world.translation().x());
    EXPECT_EQ(cameras[i].cam_from_world[4], camera.cam_from_world.rotation()(1, 0));
    EXPECT_EQ(cameras[i].cam_from_world[15], 1);
    EXPECT_EQ(cameras[i].valid, 1);
  }
  const auto report = nlohmann::json::parse(vggt_recon_report(scene.get()));
  EXPECT_EQ(report["points"], copy.points.size() / 3);
  vggt_recon_written(scene.get(), &count);
  EXPECT_EQ(count, 0u);
}

TEST(CApi, AdjustedScenesHaveTracks) {
  const test::TemporaryFolder folder;
  const Reconstruction expected = files_of_program(folder / "a");
  ASSERT_FALSE(expected.tracks.empty());
  const SceneHandle scene = run(small_context(), input_of());
  ASSERT_NE(scene, nullptr);
  std::size_t count = 0, seen_count = 0;
  const vggt_recon_track* tracks = vggt_recon_tracks(scene.get(), &count);
  const vggt_recon_observation* seen = vggt_recon_observations(scene.get(), &seen_count);
  ASSERT_EQ(count, expected.tracks.size());
  std::size_t all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Track& track = expected.tracks[i];
    EXPECT_EQ(tracks[i].point[2], track.point_in_world.z());
    EXPECT_EQ(tracks[i].rgb[1], track.rgb[1]);
    EXPECT_EQ(tracks[i].error, track.error_px);
    ASSERT_EQ(tracks[i].first_observation, static_cast<int64_t>(all));
    ASSERT_EQ(tracks[i].observation_count, static_cast<int64_t>(track.observations.size()));
    for (const Observation& observation : track.observations) {
      ASSERT_LT(all, seen_count);
      EXPECT_EQ(seen[all].frame, observation.frame);
      EXPECT_EQ(seen[all++].y, observation.pixel.y());
    }
  }
  EXPECT_EQ(all, seen_count);
}

TEST(CApi, ImagesInMemoryAndPathsAreAsGoodAsAFolder) {
  const ContextHandle context = small_context();
  const Copied expected = copy_of(run(context, input_of()));
  std::vector<std::string> files;
  for (const char* name : {"00.jpg", "06.jpg", "11.jpg"}) files.push_back(kRoom + "/" + name);
  std::vector<const char*> paths;
  std::vector<cv::Mat> pictures;  // BGR, which strides turn round
  std::vector<vggt_recon_image> images;
  for (const std::string& file : files) {
    paths.push_back(file.c_str());
    const cv::Mat& picture = pictures.emplace_back(cv::imread(file));
    images.push_back({picture.data + 2, picture.cols, picture.rows,
                      static_cast<std::ptrdiff_t>(picture.step[0]), 3, -1, "a name"});
  }
  vggt_recon_run_input input = input_of();
  input.frames = nullptr;
  input.count = 3;
  input.paths = paths.data();
  EXPECT_EQ(copy_of(run(context, input)), expected);
  input.paths = nullptr;
  input.images = images.data();
  const SceneHandle scene = run(context, input);
  EXPECT_EQ(copy_of(scene), expected);
  std::size_t count = 0;
  EXPECT_STREQ(vggt_recon_cameras(scene.get(), &count)[2].name, "a name");

  for (std::size_t i = 0; i < 3; ++i) {
    cv::cvtColor(pictures[i], pictures[i], cv::COLOR_BGR2RGB);
    images[i] = {pictures[i].data, pictures[i].cols, pictures[i].rows, 0, 0, 0, nullptr};
  }
  EXPECT_EQ(copy_of(run(context, input)), expected);

  // Rows with something behind them: their stride is all that has to be said.
  for (std::size_t i = 0; i < 3; ++i) {
    cv::Mat padded(pictures[i].rows, pictures[i].cols + 5, CV_8UC3);
    pictures[i].copyTo(padded.colRange(0, pictures[i].cols));
    pictures[i] = padded;
    images[i].pixels = padded.data;
    images[i].row_stride = static_cast<std::ptrdiff_t>(padded.step[0]);
  }
  EXPECT_EQ(copy_of(run(context, input)), expected);
}

TEST(CApi, ImagesMayLieInManyWays) {
  const ContextHandle context = small_context();
  cv::Mat rgb = cv::imread(kRoom + "/00.jpg"), rgba, upside_down, mirrored, columns, planes[3], planar;
  cv::cvtColor(rgb, rgb, cv::COLOR_BGR2RGB);
  cv::cvtColor(rgb, rgba, cv::COLOR_RGB2RGBA);
  cv::flip(rgb, upside_down, 0);
  cv::flip(rgb, mirrored, 1);
  cv::transpose(rgb, columns);
  cv::split(rgb, planes);
  cv::vconcat(planes, 3, planar);
  const int w = rgb.cols, h = rgb.rows;
  const std::ptrdiff_t row = std::ptrdiff_t{3} * w, plane = std::ptrdiff_t{w} * h;
  const auto run_of = [&](const vggt_recon_image& image) {
    vggt_recon_run_input input = input_of();
    input.frames = nullptr;
    input.images = &image;
    input.count = 1;
    return copy_of(run(context, input));
  };
  const Copied expected = run_of({rgb.data, w, h, 0, 0, 0, nullptr});
  EXPECT_EQ(run_of({rgb.data, w, h, row, 3, 0, nullptr}), expected);
  EXPECT_EQ(run_of({rgba.data, w, h, 0, 4, 0, nullptr}), expected);
  EXPECT_EQ(run_of({upside_down.data + (h - 1) * row, w, h, -row, 0, 0, nullptr}), expected);
  EXPECT_EQ(run_of({mirrored.data + row - 3, w, h, 0, -3, 1, nullptr}), expected);
  EXPECT_EQ(run_of({columns.data, w, h, 3, std::ptrdiff_t{3} * h, 1, nullptr}), expected);
  EXPECT_EQ(run_of({planar.data, w, h, 0, 1, plane, nullptr}), expected);
  EXPECT_EQ(run_of({planar.data + 2 * plane, w, h, w, 1, -plane, nullptr}),
            run_of({rgb.data + 2, w, h, 0, 3, -1, nullptr}));
}

TEST(CApi, SavedScenesEqualTheProgramsFiles) {
  const test::TemporaryFolder folder;
  files_of_program(folder / "a");
  fs::remove(folder / "a/predictions.safetensors");
  const SceneHandle scene = run(small_context(), input_of());
  const std::string out = (folder / "b").string() + "/";
  ASSERT_EQ(vggt_recon_save(scene.get(), out.c_str()), VGGT_RECON_DONE) << vggt_recon_error(nullptr);
  EXPECT_EQ(files_in(folder / "b"), files_in(folder / "a"));
  EXPECT_TRUE(fs::exists(folder / "b/scene.report.json"));
}

TEST(CApi, OptionsOfARunNameItsFiles) {
  const test::TemporaryFolder folder;
  files_of_program(folder / "a");
  fs::remove(folder / "a/predictions.safetensors");
  const std::string out = (folder / "b").string() + "/";
  const vggt_recon_option options[] = {{"out", out.c_str()}, {"export", "colmap,normals"}};
  vggt_recon_run_input input = input_of();
  input.options = options;
  input.option_count = 1;
  const ContextHandle context = small_context();
  SceneHandle scene = run(context, input);
  EXPECT_EQ(files_in(folder / "b"), files_in(folder / "a"));
  std::size_t count = 0;
  const char* const* written = vggt_recon_written(scene.get(), &count);
  ASSERT_EQ(count, 4u);
  EXPECT_EQ(written[0], (folder / "b/scene.ply").string());
  EXPECT_EQ(vggt_recon_normals(scene.get(), &count), nullptr);

  // The next run knows nothing of them. Images in memory are exported as copies of what was given.
  cv::Mat picture = cv::imread(kRoom + "/00.jpg");
  cv::cvtColor(picture, picture, cv::COLOR_BGR2RGB);
  const vggt_recon_image images[2] = {{picture.data, picture.cols, picture.rows, 0, 0, 0, "../x"},
                                      {picture.data, picture.cols, picture.rows, 0, 0, 0, "../x"}};
  input.frames = nullptr;
  input.images = images;
  input.count = 2;
  input.option_count = 2;
  scene = run(context, input);
  ASSERT_NE(scene, nullptr);
  const cv::Mat copy = cv::imread((folder / "b/colmap/images/x_2.png").string());
  ASSERT_FALSE(copy.empty());
  cv::cvtColor(picture, picture, cv::COLOR_RGB2BGR);
  EXPECT_EQ(cv::norm(picture, copy, cv::NORM_INF), 0);
  const float* normals = vggt_recon_normals(scene.get(), &count);
  ASSERT_NE(normals, nullptr);
  EXPECT_NEAR(normals[0] * normals[0] + normals[1] * normals[1] + normals[2] * normals[2], 1, 1e-5);
}

TEST(CApi, WhatIsNotKeptIsNull) {
  const test::TemporaryFolder folder;
  vggt_recon_run_input input = input_of();
  const ContextHandle context = small_context();
  input.results = 0;
  const SceneHandle bare = run(context, input);
  std::size_t count = 7, shape[3] = {7, 7, 7};
  EXPECT_EQ(vggt_recon_depth(bare.get(), shape), nullptr);
  EXPECT_EQ(shape[0] + shape[1] + shape[2], 0u);
  EXPECT_EQ(vggt_recon_points(bare.get(), &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_NE(vggt_recon_cameras(bare.get(), &count), nullptr);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(vggt_recon_save(bare.get(), (folder / "x.ply").c_str()), VGGT_RECON_BAD_INPUT);
  EXPECT_EQ(folder.file_count(), 0u);
  EXPECT_EQ(vggt_recon_save(bare.get(), (folder / "x/").c_str()), VGGT_RECON_DONE);
  EXPECT_FALSE(fs::exists(folder / "x/scene.ply"));
  EXPECT_TRUE(fs::exists(folder / "x/scene.cameras.json"));
  input.results = VGGT_RECON_MAPS;
  const SceneHandle maps = run(context, input);
  EXPECT_NE(vggt_recon_confidence(maps.get(), shape), nullptr);
  EXPECT_EQ(vggt_recon_colors(maps.get(), &count), nullptr);
}

}  // namespace
}  // namespace vggt
