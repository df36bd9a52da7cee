// Which frames tell what of others' depth, with the fixture's refiner and its four frames.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "app/run/refine_depth.h"
#include "tests/support/golden_refiner.h"

namespace vggt {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

/// So many of the frames, of which the first is repeated at the end where it has a copy.
struct Scene {
  explicit Scene(bool has_copy = false) {
    for (int frame = 0; frame < 4; ++frame) add(frame);
    if (!has_copy) return;
    add(0);
    first = {0, 1, 2, 3, 0};
  }

  void add(int shown) {
    const auto of = [&](const char* name) { return testing::golden_refiner().at(name)[shown].contiguous(); };
    images.push_back(of("images"));
    const at::Tensor pose = of("extrinsic"), k = of("intrinsic"), values = of("depth"),
                     sure = of("confidence");
    Camera camera;
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column)
        camera.cam_from_world.matrix()(row, column) = pose[row][column].item<double>();
      for (int column = 0; column < 3; ++column) camera.k(row, column) = k[row][column].item<double>();
    }
    camera.width = 36;
    camera.height = 28;
    const auto number = static_cast<int>(cameras.size());
    cameras.push_back(camera);
    depth.put(number, {values.const_data_ptr<float>(), 28 * 36}, {sure.const_data_ptr<float>(), 28 * 36});
    Frame frame;
    frame.original_width = 36;
    frame.original_height = 28;
    frames.frames.push_back(frame);
    frames.width = 36;
    frames.height = 28;
    frames.read_exact = [this](std::size_t i, std::span<float> out) {
      std::copy_n(images[i].const_data_ptr<float>(), out.size(), out.begin());
    };
  }

  void scale(double by) {
    DenseMaps::Buffer buffer;
    for (std::size_t i = 0; i < cameras.size(); ++i) {
      cameras[i].cam_from_world.translation() *= by;
      std::vector<float> values(28 * 36);
      std::ranges::transform(depth.values(static_cast<int>(i), buffer), values.begin(),
                             [by](float d) { return static_cast<float>(d * by); });
      depth.put_values(static_cast<int>(i), values);
    }
  }

  void refine(const Pairs& pairs, const std::vector<int>& weak = {}, int64_t room = kAll, bool lean = false) {
    const DepthRefiner refiner = testing::load_refiner(testing::refiner_weights());
    refine_depth(refiner, {frames, cameras, pairs, weak, first, space}, depth, room, lean, {});
  }

  at::Tensor map(int frame) const {
    DenseMaps::Buffer buffer;
    const std::span<const float> values = depth.values(frame, buffer);
    return at::tensor(at::ArrayRef<float>(values.data(), values.size()));
  }
  static at::Tensor given(int frame) { return testing::golden_refiner().at("depth")[frame].flatten(); }

  std::vector<at::Tensor> images;
  FrameSet frames;
  std::vector<Camera> cameras;
  std::vector<std::size_t> first;
  std::shared_ptr<HostSpace> space = std::make_shared<HostSpace>();
  DenseMaps depth{space, "depth"};
};

double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  return (found / expected).log().abs().max().item<double>();
}

const Pairs kPairs{{0, 1}, {0, 2}, {1, 3}};

TEST(RefinedFrames, LinkedFramesTellOfDepth) {
  Scene scene, lean;
  scene.refine({{0, 1}, {0, 2}});
  for (const int frame : {0, 1, 2})
    EXPECT_GT(largest_error(scene.map(frame), Scene::given(frame)), 0.01) << frame;
  EXPECT_TRUE(at::equal(scene.map(3), Scene::given(3)));
  lean.refine({{0, 1}, {0, 2}}, {}, kAll, /*lean=*/true);
  for (const int frame : {0, 1, 2})
    EXPECT_LT(largest_error(lean.map(frame), scene.map(frame)), 1e-6) << frame;
}

TEST(RefinedFrames, WeakFramesTellNothingOfOthers) {
  Scene scene, without;
  scene.refine(kPairs, {1});
  without.refine({{0, 2}});
  for (const int frame : {0, 2}) EXPECT_TRUE(at::equal(scene.map(frame), without.map(frame))) << frame;
  EXPECT_TRUE(at::equal(scene.map(3), Scene::given(3)));
  EXPECT_GT(largest_error(scene.map(1), Scene::given(1)), 0.01);
}

TEST(RefinedFrames, CopiesGetTheDepthOfWhatTheyShow) {
  Scene scene(/*has_copy=*/true), without;
  scene.refine(kPairs);
  without.refine(kPairs);
  for (const int frame : {0, 1, 2, 3}) EXPECT_TRUE(at::equal(scene.map(frame), without.map(frame))) << frame;
  EXPECT_TRUE(at::equal(scene.map(4), without.map(0)));
}

TEST(RefinedFrames, TheUnitOfDepthDoesNotMatter) {
  Scene scene;
  scene.refine(kPairs);
  for (const double unit : {1e-4, 1e5}) {
    Scene other;
    other.scale(unit);
    other.refine(kPairs);
    for (const int frame : {0, 1, 2, 3})
      EXPECT_LT(largest_error(other.map(frame), scene.map(frame) * unit), 1e-5) << unit;
  }
}

TEST(RefinedFrames, MaskedPixelsTellOtherFramesNothing) {
  Scene scene, without;
  for (Scene* one : {&scene, &without}) {
    one->frames.read_mask = [](std::size_t frame, std::span<uint8_t> used) {
      std::ranges::fill(used, static_cast<uint8_t>(frame == 1 ? 0 : 1));
    };
  }
  scene.refine({{0, 1}, {0, 2}});
  without.refine({{0, 2}});
  EXPECT_LT(largest_error(scene.map(0), without.map(0)), 1e-6);
  EXPECT_GT(largest_error(scene.map(1), Scene::given(1)), 0.01);
}

TEST(RefinedFrames, WithoutRoomNothingChanges) {
  Scene scene;
  EXPECT_THROW(scene.refine(kPairs, {}, 1'000'000), NoRoomToRefine);
  for (const int frame : {0, 1, 2, 3}) EXPECT_TRUE(at::equal(scene.map(frame), Scene::given(frame))) << frame;
}

TEST(RefinedAtOnce, StaysWithinTheRoomThatThereIs) {
  const int64_t pixels = 518 * 392;
  EXPECT_EQ(RefinedAtOnce(pixels, 100, 8, 100'000'000).bytes, 0);
  int64_t before = 0;
  for (int64_t room = 200'000'000; room < 4'000'000'000; room += 50'000'000) {
    const RefinedAtOnce at_once(pixels, 100, 8, room);
    EXPECT_GE(at_once.frames, std::max<int64_t>(1, before)) << room;
    EXPECT_GE(at_once.kept, 7 * at_once.frames) << room;
    EXPECT_LE(at_once.bytes, room);
    before = at_once.frames;
  }
  EXPECT_EQ(before, 8);
  EXPECT_EQ(RefinedAtOnce(pixels, 2, 8, kAll).frames, 2);
  EXPECT_EQ(RefinedAtOnce(pixels, 2, 8, kAll).kept, 2);
  const int64_t least = RefinedAtOnce(pixels, 2, 8, 0).least;
  EXPECT_EQ(RefinedAtOnce(pixels, 2, 8, least - 1).frames, 0);
  EXPECT_EQ(RefinedAtOnce(pixels, 2, 8, least).frames, 1);
  EXPECT_EQ(RefinedAtOnce(pixels, 2, 8, least).bytes, least);
}

}  // namespace
}  // namespace vggt
