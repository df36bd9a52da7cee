// The whole model with merged tokens: every stage against FastVGGT's tensors (fixtures/golden), and against
// the model without merging.
#include <ATen/Context.h>

#include <cmath>

#include "tests/support/golden.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

const fs::path kMini = fs::path(VGGT_FIXTURES) / "golden/mini";
constexpr double kStageLimit = 5e-6;  // as in test_parity.cpp

struct Model {
  WeightFile file = WeightFile::open(kMini / "weights.safetensors");
  TensorSource source = testing::source_of(file);

  Tensors run(const std::optional<MergeOptions>& merge, const at::Tensor& images,
              const Heads& heads = {.camera = true}, at::Device device = at::kCPU,
              Precision precision = Precision::fp32) const {
    const ModelOptions options{.device = device, .precision = precision, .heads = heads, .merge = merge};
    return testing::run_all(Vggt(read_config(file.config_json(), source.shapes), source, options), images,
                            {});
  }
};

class MergedModelParity : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(MergedModelParity, EveryStageEqualsFastVggt) {
  const auto& [name, start] = GetParam();
  Tensors golden = testing::load_tensors(kMini / (std::string(name) + ".safetensors"));
  const at::Tensor images = golden.at("images");
  golden.erase("images");
  const Model model;
  Heads heads = heads_in(model.source.shapes);
  heads.tracks = false;
  const Tensors got = model.run(MergeOptions{.start = start}, images, heads);
  for (const auto& [stage, expected] : golden) {
    ASSERT_TRUE(got.contains(stage)) << stage << " was not produced";
    ASSERT_EQ(got.at(stage).sizes(), expected.sizes()) << stage;
    EXPECT_LE(testing::relative_error(got.at(stage), expected), kStageLimit) << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, MergedModelParity,
                         ::testing::Values(std::pair{"fast4_56x84", 0}, std::pair{"fast5_42x70_from2", 2}));

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

// One matching for several blocks: the first of them as without it, the others nearly so; never from a block
// that does not merge.
TEST(MergedModel, AMatchingServesSoManyBlocks) {
  const at::Tensor images = testing::load_tensors(kMini / "fast4_56x84.safetensors").at("images");
  const Model model;
  const Tensors each = model.run(MergeOptions{}, images),
                all = model.run(MergeOptions{.refresh = 100}, images),
                two = model.run(MergeOptions{.refresh = 2}, images);
  EXPECT_TRUE(at::equal(all.at("global_block.0"), each.at("global_block.0")));
  EXPECT_FALSE(at::equal(all.at("global_block.1"), each.at("global_block.1")));
  EXPECT_TRUE(at::equal(all.at("global_block.1"), two.at("global_block.1")));
  EXPECT_FALSE(at::equal(all.at("global_block.2"), two.at("global_block.2")));
  const Tensors later = model.run(MergeOptions{.start = 1, .refresh = 2}, images),
                later_each = model.run(MergeOptions{.start = 1}, images);
  EXPECT_TRUE(at::equal(later.at("global_block.1"), later_each.at("global_block.1")));
  EXPECT_FALSE(at::equal(later.at("global_block.2"), later_each.at("global_block.2")));
}

// Of as many numbers as there are channels the metric is the channels themselves.
TEST(MergedModel, ANarrowMetricMatchesOtherTokens) {
  const at::Tensor images = testing::load_tensors(kMini / "fast4_56x84.safetensors").at("images");
  const Model model;
  const Tensors wide = model.run(MergeOptions{}, images),
                narrow = model.run(MergeOptions{.metric = 16}, images);
  expect_same(model.run(MergeOptions{.metric = 1 << 20}, images), wide);
  expect_same(model.run(MergeOptions{.metric = 16}, images), narrow);
  EXPECT_TRUE(at::equal(narrow.at("frame_block.0"), wide.at("frame_block.0")));
  EXPECT_FALSE(at::equal(narrow.at("global_block.0"), wide.at("global_block.0")));
  EXPECT_FALSE(at::equal(narrow.at("global_block.0"),
                         model.run(MergeOptions{.metric = 24}, images).at("global_block.0")));
}

// The draws are the CPU's, so that a GPU merges the same tokens. In float64 scores decide as the golden
// files' fp32 scores do; fp32 scores of a GPU's products may decide a near tie otherwise, which random
// weights do not have.
TEST(MergedModel, OnAGpuEqualsFastVggt) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  Tensors golden = testing::load_tensors(kMini / "fast4_56x84.safetensors");
  const at::Tensor images = golden.at("images");
  golden.erase("images");
  const Model model;
  Heads heads = heads_in(model.source.shapes);
  heads.tracks = false;
  const at::Device device(at::kCUDA, 0);
  for (const auto& [precision, limit] : {std::pair{Precision::fp64, 5e-6}, {Precision::fp32, 1e-5}}) {
    const Tensors got = model.run(MergeOptions{}, images, heads, device, precision);
    for (const auto& [stage, expected] : golden) {
      ASSERT_TRUE(got.contains(stage)) << stage;
      EXPECT_LE(testing::relative_error(got.at(stage).cpu(), expected), limit) << stage;
    }
  }
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {  // the merged means in half types
    const Tensors a = model.run(MergeOptions{}, images, heads, device, precision),
                  b = model.run(MergeOptions{}, images, heads, device, precision);
    expect_same(a, b);
    EXPECT_TRUE(a.at("depth").isfinite().all().item<bool>());
  }
}

at::Tensor some_images(int64_t frames) {
  at::manual_seed(7);
  return at::rand({frames, 3, 42, 56});
}

TEST(MergedModel, IsTheExactOneWhereNothingMerges) {
  const Model model;
  const at::Tensor images = some_images(3);
  const Tensors exact = model.run({}, images);
  expect_same(model.run(MergeOptions{.start = 4}, images), exact);  // the model has four blocks
  expect_same(model.run(MergeOptions{.start = 1000000}, images), exact);
  expect_same(model.run(MergeOptions{.ratio = 0}, images), exact);
}

TEST(MergedModel, EqualsTheExactOneWhereEveryTokenIsADestination) {
  const Model model;
  const at::Tensor images = some_images(1);
  const Tensors exact = model.run({}, images), merged = model.run(MergeOptions{.protect = 0}, images);
  for (const auto& [name, tensor] : exact)
    EXPECT_LE(testing::relative_error(merged.at(name), tensor), kStageLimit) << name;
}

TEST(MergedModel, RepeatsBitForBit) {
  const Model model;
  const at::Tensor images = some_images(4);
  for (const double ratio : {0.3, 1.0})
    expect_same(model.run(MergeOptions{.ratio = ratio}, images),
                model.run(MergeOptions{.ratio = ratio}, images));
}

TEST(MergedModel, RefusesSharesThatAreNone) {
  const Model model;
  const auto run = [&](const MergeOptions& merge) {
    return [&, merge] { model.run(merge, some_images(1)); };
  };
  for (const double share : {-0.01, 1.01, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(refusal([&] { run({.ratio = share})(); }).find("merge ratio: expected a number"), 0u);
    EXPECT_EQ(refusal([&] { run({.protect = share})(); }).find("merge protect: expected a number"), 0u);
  }
  EXPECT_EQ(refusal([&] { run({.start = -1})(); }).find("merge start: expected a block"), 0u);
  EXPECT_EQ(refusal([&] { run({.refresh = 0})(); }).find("merge refresh: expected"), 0u);
  EXPECT_EQ(refusal([&] { run({.metric = -1})(); }).find("merge metric: expected"), 0u);
}

}  // namespace
}  // namespace vggt
