// The network that ours is measured beside computes the same; the rows of `bench` for the network.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "attention/bench/timing.h"
#include "model/bench/network_rows.h"
#include "model/bench/torch_network.h"
#include "model/random_weights.h"
#include "model/vggt.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

/// Small in all its sizes, with as many layers as the dense heads read.
Config small_config() {
  Config config;
  config.embed_dim = 64;
  config.num_heads = config.vit_num_heads = config.camera_num_heads = 4;
  config.depth = 4;
  config.vit_depth = 2;
  config.intermediate_layers = {0, 1, 2, 3};
  config.camera_trunk_depth = 2;
  config.dpt_features = 32;
  config.dpt_out_channels = {16, 24, 32, 32};
  return config;
}

constexpr int64_t kHeight = 42, kWidth = 70;

FrameProvider random_frames(int64_t frames) {
  const at::Tensor pixels = at::randint(256, {frames, 3, kHeight, kWidth}, at::kByte);
  return {frames, kHeight, kWidth,
          [pixels](int64_t first, int64_t count) { return pixels.narrow(0, first, count); }};
}

/// Everything that a run hands out, by name.
struct Outputs {
  std::map<std::string, at::Tensor> tensors;
  void add(const std::string& name, const at::Tensor& values) {
    at::Tensor& all = tensors[name];
    all = all.defined() ? at::cat({all, values}) : values.clone();
  }
  Sink sink() {
    Sink sink;
    sink.cameras = [this](const CameraPrediction& p) {
      add("pose", p.pose_enc);
      add("extrinsic", p.extrinsic);
      add("intrinsic", p.intrinsic);
    };
    sink.depth = [this](const DensePrediction& p) {
      add("depth", p.depth);
      add("depth_conf", p.depth_conf);
    };
    sink.points = [this](const DensePrediction& p) {
      add("points", p.world_points);
      add("points_conf", p.world_points_conf);
    };
    return sink;
  }
};

/// LayerScale and norms that count, where random_weights() has 0.01, ones and zeros.
TensorSource lively(const TensorSource& source) {
  TensorSource result = source;
  result.load = [load = source.load](const std::string& name, at::ScalarType type, at::Device device) {
    at::Tensor values = load(name, at::kDouble, device);
    if (values.dim() == 1) {
      at::Generator random = at::detail::createCPUGenerator(std::hash<std::string>()(name));
      values = values + 0.2 * at::randn(values.sizes(), random, values.options());
    }
    return values.to(type);
  };
  return result;
}

void expect_same(Precision precision, int64_t frames, double most) {
  ModelOptions options;
  options.precision = precision;
  options.heads_in_bf16 = precision == Precision::bf16;
  options.heads = {.camera = true, .depth = true, .points = true};
  const Config config = small_config();
  const TensorSource source = lively(random_weights(config, options.heads, 1));
  const FrameProvider provider = random_frames(frames);
  Outputs ours, theirs;
  Vggt(config, source, options).run(provider, {}, ours.sink());
  TorchNetwork(config, source, options).run(provider, theirs.sink());
  ASSERT_EQ(ours.tensors.size(), 7u);
  ASSERT_EQ(theirs.tensors.size(), 7u);
  for (const auto& [name, expected] : theirs.tensors) {
    const at::Tensor& got = ours.tensors.at(name);
    ASSERT_EQ(got.sizes(), expected.sizes()) << name;
    EXPECT_LE(((got - expected).norm() / expected.norm()).item<double>(), most) << name;
  }
}

TEST(TorchNetwork, IsOurNetwork) {
  at::manual_seed(5);
  for (const int64_t frames : {1, 9}) {  // dense heads take eight at once
    expect_same(Precision::fp64, frames, 1e-6);
    expect_same(Precision::fp32, frames, 1e-4);
  }
}

TEST(TorchNetwork, InBf16IsOurNetwork) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "this processor has no bf16";
  at::manual_seed(5);
  expect_same(Precision::bf16, 3, 5e-2);
}

TEST(TorchNetwork, TakesNoMoreMemoryThanIsSaidOfIt) {
  ModelOptions options;
  options.heads = {.camera = true, .depth = true};
  Config config = small_config();
  config.embed_dim = 256;
  config.dpt_features = 256;
  const FrameProvider provider = random_frames(32);
  const TorchNetwork network(config, random_weights(config, options.heads, 1), options);
  const auto run = [&] { network.run(provider, Sink()); };
  run();
  const auto peak = peak_bytes_of(at::kCPU, run);
  if (!peak) GTEST_SKIP() << "the system does not say";
  EXPECT_LE(*peak, static_cast<double>(torch_network_bytes(config, options, provider)));
}

NetworkBench small_network() {
  NetworkBench bench;
  bench.config = small_config();
  bench.options.heads = {.camera = true, .depth = true};
  bench.height = kHeight;
  bench.width = kWidth;
  bench.lengths = {1, 8};
  return bench;
}

std::vector<ordered_json> rows_of(const NetworkBench& bench, double seconds) {
  std::vector<ordered_json> rows;
  network_rows(bench, Pace(seconds, {}), [&](const ordered_json& row) { rows.push_back(row); });
  return rows;
}

TEST(NetworkRows, HaveLibTorchsBesideExactAttention) {
  const std::vector<ordered_json> rows = rows_of(small_network(), 600);
  ASSERT_EQ(rows.size(), 3u);
  for (const ordered_json& row : rows) {
    EXPECT_FALSE(row.contains("failure") || row.contains("libtorch_failure")) << row;
    EXPECT_GT(row["seconds"], 0);
  }
  for (const std::size_t exact : {0u, 1u}) {
    const ordered_json& row = rows[exact];
    EXPECT_EQ(row["attention"], "exact");
    EXPECT_GT(row["libtorch_seconds"], 0);
    EXPECT_NEAR(row["speedup"].get<double>(),
                row["libtorch_seconds"].get<double>() / row["seconds"].get<double>(), 1e-9);
  }
  EXPECT_EQ(rows[2]["attention"], "merged");
  EXPECT_FALSE(rows[2].contains("libtorch_seconds"));
}

TEST(NetworkRows, WithoutTimeSayWhatIsLeftOut) {
  const std::vector<ordered_json> rows = rows_of(small_network(), 0);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["libtorch_left_out"], kBeyondTime);
  EXPECT_GT(rows[0]["seconds"], 0);
  EXPECT_EQ(rows[1], (ordered_json{{"frames", 1}, {"side", "LibTorch"}, {"left_out", kBeyondTime}}));
  EXPECT_EQ(rows[2], (ordered_json{{"frames", 8}, {"left_out", kBeyondTime}}));
}

TEST(NetworkRows, WithoutMemorySayWhatIsLeftOut) {
  NetworkBench bench = small_network();
  MemoryRequest request = memory_request(bench.config, bench.options);
  request.frames = 1;
  request.height = kHeight;
  request.width = kWidth;
  const MemoryPlan plan = plan_memory(request);
  bench.options.budget.host = plan.peak_bytes() + plan.host_bytes;  // of one frame of ours
  bench.lengths = {1, 400};
  const std::vector<ordered_json> rows = rows_of(bench, 600);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["libtorch_left_out"], kBeyondMemory);
  EXPECT_GT(rows[0]["seconds"], 0);
  EXPECT_EQ(rows[1], (ordered_json{{"frames", 1}, {"side", "LibTorch"}, {"left_out", kBeyondMemory}}));
  EXPECT_EQ(rows[2], (ordered_json{{"frames", 400}, {"left_out", kBeyondMemory}}));
}

}  // namespace
}  // namespace vggt
