// The scene builder: which pixels become points, whatever the order and size of the chunks they come in.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "app/scene/predicted_cameras.h"
#include "app/scene/scene_builder.h"
#include "app/scene/scene_cloud.h"
#include "tests/support/percentile.h"

namespace vggt {
namespace {

using test::percentile;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A scene and its points.
struct Built : BuiltScene {
  PointCloud cloud;
};

Built built(SceneBuilder& builder) {
  Built result{builder.finish(), {}};
  result.cloud = SceneCloud(builder, {}, true, result).in_memory();
  EXPECT_EQ(result.cloud.points.size(), static_cast<std::size_t>(result.points));
  return result;
}

/// A few frames of random depth, confidence and colour, with cameras that look different ways.
struct Sample {
  int frames, height, width;
  std::vector<float> depth, confidence, pose, extrinsic, intrinsic;
  std::vector<uint8_t> rgb;

  Sample(int s, int h, int w, unsigned seed) : frames(s), height(h), width(w) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> unit(0, 1);
    const auto pixels = static_cast<std::size_t>(s * h * w);
    for (std::size_t i = 0; i < pixels; ++i) {
      depth.push_back(1 + unit(random));
      confidence.push_back(1 + std::round(20 * unit(random)) / 4);  // with ties
    }
    for (std::size_t i = 0; i < 3 * pixels; ++i) rgb.push_back(static_cast<uint8_t>(random() % 256));
    for (int f = 0; f < s; ++f) {
      const float angle = 0.3f * static_cast<float>(f), c = std::cos(angle), n = std::sin(angle);
      const float shift = static_cast<float>(f);
      pose.insert(pose.end(), {0, shift, 0, 0, 0, 0, 1, 1, 1.2f});
      extrinsic.insert(extrinsic.end(), {c, 0, n, 0, 0, 1, 0, shift, -n, 0, c, 0.5f});
      intrinsic.insert(intrinsic.end(),
                       {30, 0, static_cast<float>(w) / 2, 0, 25, static_cast<float>(h) / 2, 0, 0, 1});
    }
  }

  std::size_t plane() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  float& depth_at(int f, int y, int x) {
    return depth[plane() * f + static_cast<std::size_t>(y * width + x)];
  }
  float& confidence_at(int f, int y, int x) {
    return confidence[plane() * f + static_cast<std::size_t>(y * width + x)];
  }
  void paint(int f, int y, int x, uint8_t r, uint8_t g, uint8_t b) {
    uint8_t* pixel = rgb.data() + 3 * plane() * f + static_cast<std::size_t>(y * width + x);
    pixel[0] = r, pixel[plane()] = g, pixel[2 * plane()] = b;
  }

  std::vector<FrameView> frame_views() const {
    std::vector<FrameView> views;
    for (int f = 0; f < frames; ++f) views.push_back({0, width, 0, height});
    return views;
  }
  std::vector<Camera> cameras() const {
    return cameras_from(pose.data(), extrinsic.data(), intrinsic.data(), frames, width, height);
  }

  ReadRgb read_rgb() const {
    return [this](std::size_t f, std::span<uint8_t> to) {
      std::copy_n(rgb.begin() + static_cast<std::ptrdiff_t>(3 * plane() * f), to.size(), to.begin());
    };
  }
  SceneBuilder builder(const SceneOptions& options, const HostStorage& storage = {}) const {
    return {options, width, height, frame_views(), read_rgb(), std::make_shared<HostSpace>(storage)};
  }

  Built build(const SceneOptions& options, int chunk = 1000) const {
    SceneBuilder started = builder(options);
    started.set_cameras(cameras());
    for (int first = 0; first < frames; first += chunk) add(started, first, std::min(chunk, frames - first));
    return built(started);
  }
  void add(SceneBuilder& builder, int first, int count) const {
    builder.add({first, count, depth.data() + plane() * first, nullptr, confidence.data() + plane() * first});
  }
};

SceneOptions keep_all() {
  SceneOptions options;
  options.conf_percentile = 0;
  return options;
}

int64_t after(const BuiltScene& scene, const std::string& filter) {
  const auto found = std::ranges::find(scene.filters, filter, &FilterCount::name);
  return found == scene.filters.end() ? -1 : found->after;
}

TEST(SceneBuilder, KeepsWhatIsAtOrAboveThePercentileOfAllFrames) {
  for (const double percent : {0.0, 10.0, 50.0, 87.3, 100.0}) {
    const Sample sample(5, 9, 14, 3);
    SceneOptions options;
    options.conf_percentile = percent;
    const double threshold = percentile(sample.confidence, percent);
    const auto expected = std::ranges::count_if(sample.confidence, [&](float c) { return c >= threshold; });
    const Built scene = sample.build(options);
    EXPECT_EQ(scene.conf_threshold, threshold);
    EXPECT_EQ(static_cast<int64_t>(scene.cloud.points.size()), expected) << percent;
    EXPECT_EQ(scene.cloud.points.size(), scene.cloud.colors.size());
  }
}

// VGGT's confidence is 1 where the network says nothing.
TEST(SceneBuilder, TheLeastConfidenceGoesEvenWhereMostPixelsHaveIt) {
  Sample sample(3, 8, 11, 5);
  for (float& c : sample.confidence) c = c < 3 ? 1 : c;
  const auto above = std::ranges::count_if(sample.confidence, [](float c) { return c > 1; });
  SceneOptions options;
  options.conf_percentile = 1;
  ASSERT_LT(above, std::ssize(sample.confidence) * 9 / 10);
  EXPECT_EQ(std::ssize(sample.build(options).cloud.points), above);
  EXPECT_EQ(sample.build(keep_all()).cloud.points.size(), sample.confidence.size());
  std::ranges::fill(sample.confidence, 1.0f);  // then nothing would be left
  EXPECT_EQ(sample.build(options).cloud.points.size(), sample.confidence.size());
}

TEST(SceneBuilder, PrunesToTheSameSceneOnLongInput) {
  // 2.7 million pixels pass the point at which candidates are pruned, more than once.
  const Sample sample(30, 250, 360, 4);
  SceneOptions options;
  options.conf_percentile = 90;
  const double threshold = percentile(sample.confidence, 90);
  const auto expected = std::ranges::count_if(sample.confidence, [&](float c) { return c >= threshold; });
  const Built scene = sample.build(options, 1);
  EXPECT_EQ(scene.conf_threshold, threshold);
  EXPECT_EQ(static_cast<int64_t>(scene.cloud.points.size()), expected);
}

TEST(SceneBuilder, ThresholdReplacesThePercentile) {
  const Sample sample(3, 8, 11, 5);
  SceneOptions options;
  options.conf_threshold = 3.25;
  const auto expected = std::ranges::count_if(sample.confidence, [](float c) { return c >= 3.25f; });
  EXPECT_GT(expected, 0);
  EXPECT_EQ(static_cast<int64_t>(sample.build(options).cloud.points.size()), expected);
}

TEST(SceneBuilder, ChunksDoNotMatter) {
  const Sample sample(6, 7, 9, 6);
  const Built whole = sample.build({});
  for (const int chunk : {1, 2, 4, 5}) {
    const Built scene = sample.build({}, chunk);
    EXPECT_EQ(scene.cloud.points, whole.cloud.points) << chunk;
    EXPECT_EQ(scene.cloud.colors, whole.cloud.colors) << chunk;
    EXPECT_EQ(scene.median_depth, whole.median_depth);
  }
  SceneBuilder backwards = sample.builder({});
  backwards.set_cameras(sample.cameras());
  for (int f = 5; f >= 0; --f) sample.add(backwards, f, 1);
  EXPECT_EQ(built(backwards).cloud.points, whole.cloud.points);
}

TEST(SceneBuilder, PointsProjectBackToTheirPixels) {
  Sample sample(3, 6, 8, 7);
  const Built scene = sample.build(keep_all());
  ASSERT_EQ(scene.cloud.points.size(), sample.depth.size());
  const std::vector<Camera> cameras = sample.cameras();
  for (std::size_t i = 0; i < scene.cloud.points.size(); ++i) {
    const auto frame = static_cast<int>(i / sample.plane());
    const auto y = static_cast<int>(i % sample.plane()) / sample.width,
               x = static_cast<int>(i) % sample.width;
    const Camera& camera = cameras[static_cast<std::size_t>(frame)];
    const Eigen::Vector3d in_camera = camera.cam_from_world * scene.cloud.points[i].cast<double>();
    const Eigen::Vector3d pixel = camera.k * in_camera;
    EXPECT_NEAR(in_camera.z(), sample.depth_at(frame, y, x), 1e-5);
    EXPECT_NEAR(pixel.x() / pixel.z(), x, 1e-4);
    EXPECT_NEAR(pixel.y() / pixel.z(), y, 1e-4);
    const uint8_t* rgb = sample.rgb.data() + 3 * sample.plane() * frame + i % sample.plane();
    EXPECT_EQ(scene.cloud.colors[i],
              (Eigen::Matrix<uint8_t, 3, 1>(rgb[0], rgb[sample.plane()], rgb[2 * sample.plane()])));
  }
  std::vector<float> sorted = sample.depth;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  EXPECT_NEAR(scene.median_depth, (sorted[middle - 1] + sorted[middle]) / 2, 1e-5);
}

TEST(SceneBuilder, BackgroundMasksStopAtTheirLimits) {
  Sample sample(1, 2, 4, 8);
  for (int x = 0; x < 4; ++x) sample.paint(0, 0, x, 100, 100, 100), sample.paint(0, 1, x, 100, 100, 100);
  sample.paint(0, 0, 0, 5, 5, 5);        // sum 15: black
  sample.paint(0, 0, 1, 5, 5, 6);        // sum 16: not
  sample.paint(0, 1, 0, 241, 241, 241);  // white
  sample.paint(0, 1, 1, 255, 240, 255);  // not
  SceneOptions options = keep_all();
  EXPECT_EQ(sample.build(options).cloud.points.size(), 8u);
  options.mask_black = true;
  EXPECT_EQ(sample.build(options).cloud.points.size(), 7u);
  options.mask_white = true;
  EXPECT_EQ(sample.build(options).cloud.points.size(), 6u);
  EXPECT_EQ(after(sample.build(options), "background"), 6);
}

TEST(SceneBuilder, MasksDoNotMoveThePercentile) {
  Sample sample(2, 10, 10, 9);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 10; ++x) sample.paint(0, y, x, 0, 0, 0), sample.confidence_at(0, y, x) = 0.5f;
  }
  SceneOptions options;
  options.mask_black = true;
  EXPECT_EQ(sample.build(options).conf_threshold, percentile(sample.confidence, 50));
}

TEST(SceneBuilder, DepthEdgesAreRelativeToTheDepth) {
  Sample sample(1, 5, 7, 10);
  std::ranges::fill(sample.depth, 10.f);
  sample.depth_at(0, 2, 3) = 10.5f;  // 5 % off: touches its 8 neighbours and itself
  SceneOptions options = keep_all();
  options.depth_edge = 0.06;
  EXPECT_EQ(sample.build(options).cloud.points.size(), 35u);
  options.depth_edge = 0.04;
  EXPECT_EQ(sample.build(options).cloud.points.size(), 26u);
  EXPECT_EQ(after(sample.build(options), "depth edges"), 26);
}

TEST(SceneBuilder, PaddingGivesNoPoints) {
  const Sample sample(1, 6, 6, 11);
  std::vector<FrameView> views = sample.frame_views();
  views[0].begin_x = 1, views[0].end_x = 5, views[0].begin_y = 2, views[0].end_y = 4;
  SceneBuilder builder(keep_all(), 6, 6, views, sample.read_rgb());
  builder.set_cameras(sample.cameras());
  sample.add(builder, 0, 1);
  EXPECT_EQ(built(builder).cloud.points.size(), 8u);
}

// However much padding there is, and however sure the network is of it, the share dropped is of the image.
TEST(SceneBuilder, PaddingHasNoPartInConfidence) {
  for (const float of_padding : {0.5f, 100.0f}) {
    Sample sample(1, 6, 6, 11);
    std::ranges::fill(sample.confidence, of_padding);
    std::vector<FrameView> views = sample.frame_views();
    views[0].begin_x = 1, views[0].end_x = 5, views[0].begin_y = 2, views[0].end_y = 4;
    for (int i = 0; i < 8; ++i) sample.confidence_at(0, 2 + i / 4, 1 + i % 4) = static_cast<float>(i + 1);
    SceneBuilder builder(SceneOptions(), 6, 6, views, sample.read_rgb());
    builder.set_cameras(sample.cameras());
    sample.add(builder, 0, 1);
    const Built scene = built(builder);
    EXPECT_EQ(scene.cloud.points.size(), 4u);
    EXPECT_DOUBLE_EQ(scene.conf_threshold, 4.5);
    EXPECT_DOUBLE_EQ(scene.mean_confidence[0], 4.5);
  }
}

TEST(SceneBuilder, OnlyFinitePointsComeOut) {
  Sample sample(2, 4, 5, 12);
  sample.depth_at(0, 0, 0) = kNan;
  sample.depth_at(0, 1, 1) = kInf;
  sample.depth_at(1, 0, 0) = 3e38f;  // finite, but not once it is a point
  sample.confidence_at(0, 2, 2) = kNan;
  sample.confidence_at(0, 2, 3) = kInf;
  sample.intrinsic[0] = 0.01f;
  sample.intrinsic[9] = 0.01f;
  for (const double percent : {0.0, 50.0}) {
    SceneOptions options;
    options.conf_percentile = percent;
    const Built scene = sample.build(options);
    for (const auto& point : scene.cloud.points) EXPECT_TRUE(point.allFinite());
    EXPECT_TRUE(std::isfinite(scene.conf_threshold) && std::isfinite(scene.median_depth));
    for (const double mean : scene.mean_confidence) EXPECT_TRUE(std::isfinite(mean));
    if (percent == 0) {
      EXPECT_EQ(scene.cloud.points.size(), 35u);
      EXPECT_EQ(after(scene, "confidence"), 35);
    }
  }
}

TEST(SceneBuilder, FramesWithoutACameraGiveNoPoints) {
  Sample sample(4, 3, 4, 13);
  sample.pose[9 * 1 + 7] = 0;  // field of view 0: the intrinsics are infinite
  sample.intrinsic[9 * 1 + 4] = kInf;
  sample.extrinsic[12 * 2 + 3] = kNan;
  sample.pose[9 * 3 + 8] = -0.1f;
  const std::vector<Camera> cameras = sample.cameras();
  EXPECT_TRUE(cameras[0].valid);
  for (std::size_t f : {1u, 2u, 3u}) {
    EXPECT_FALSE(cameras[f].valid) << f;
    EXPECT_TRUE(cameras[f].k.allFinite() && cameras[f].cam_from_world.matrix().allFinite());
  }
  const Built scene = sample.build(keep_all());
  EXPECT_EQ(scene.cloud.points.size(), 12u);
  EXPECT_EQ(after(scene, "frames without a camera"), 12);
}

TEST(SceneBuilder, FramesWithoutACameraHaveNoPartInThePercentile) {
  Sample sample(3, 6, 7, 18);
  sample.extrinsic[12 * 1] = kNan;
  std::fill_n(sample.confidence.begin() + static_cast<std::ptrdiff_t>(sample.plane()), sample.plane(), 100.f);
  std::vector<float> with_camera = sample.confidence;
  const auto begin = with_camera.begin() + static_cast<std::ptrdiff_t>(sample.plane());
  with_camera.erase(begin, begin + static_cast<std::ptrdiff_t>(sample.plane()));
  const Built scene = sample.build({});
  EXPECT_EQ(scene.conf_threshold, percentile(with_camera, 50));
  EXPECT_GE(scene.cloud.points.size(), sample.plane());
  EXPECT_DOUBLE_EQ(scene.mean_confidence[1], 100);
}

TEST(SceneBuilder, TakesThePointHeadAsItIs) {
  const Sample sample(2, 4, 5, 14);
  std::vector<float> points(3 * sample.depth.size());
  std::iota(points.begin(), points.end(), 1.f);
  for (const bool with_cameras : {true, false}) {
    SceneBuilder builder = sample.builder(keep_all());
    if (with_cameras) builder.set_cameras(sample.cameras());
    builder.add({0, 2, nullptr, points.data(), sample.confidence.data()});
    const Built scene = built(builder);
    ASSERT_EQ(scene.cloud.points.size(), 40u);
    EXPECT_EQ(scene.cloud.points[39], Eigen::Vector3f(118, 119, 120));
    // Along the first camera: between z of points 19 and 20 of 40.
    if (!with_cameras) {
      EXPECT_EQ(scene.median_depth, 61.5);
    }
  }
  SceneBuilder builder = sample.builder(keep_all());
  EXPECT_THROW(sample.add(builder, 0, 1), std::logic_error);
}

TEST(SceneBuilder, MeanConfidenceIsPerFrame) {
  Sample sample(2, 2, 2, 15);
  sample.confidence = {1, 2, 3, 4, 2, 2, kNan, 5};
  const Built scene = sample.build({});
  EXPECT_DOUBLE_EQ(scene.mean_confidence[0], 2.5);
  EXPECT_DOUBLE_EQ(scene.mean_confidence[1], 3);
}

}  // namespace
}  // namespace vggt
