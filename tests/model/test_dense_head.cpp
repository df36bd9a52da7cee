// A dense head beside the same head written with LibTorch's operations alone, as PyTorch runs it: in float64
// they are the same, in bf16 ours is no further from float64.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/heads/dpt_head.h"
#include "model/heads/track_head.h"

namespace vggt {
namespace {

using Weights = std::map<std::string, at::Tensor>;

constexpr int64_t kRows = 4, kColumns = 5, kPatch = 14, kHeight = kRows * kPatch, kWidth = kColumns * kPatch;

Config small_config() {
  Config config;
  config.embed_dim = 24;
  config.dpt_features = 32;
  config.dpt_out_channels = {16, 32, 48, 64};
  return config;
}

TensorShapes shapes_of(const Config& config, const DptSpec& spec) {
  Binder names(nullptr, {at::kFloat, at::kFloat}, at::kCPU);
  DptHead(names, config, spec);
  return names.taken();
}

Weights random_weights_of(const TensorShapes& shapes) {
  Weights weights;
  for (const auto& [name, shape] : shapes) {
    int64_t inputs = 1;
    for (size_t i = 1; i < shape.size(); ++i) inputs *= shape[i];
    const double deviation = shape.size() == 1 ? 0.2 : 1.2 / std::sqrt(static_cast<double>(inputs));
    weights[name] = at::randn(shape) * deviation + (name.ends_with("norm.weight") ? 1 : 0);
  }
  return weights;
}

DptHead head_of(const Weights& weights, const Config& config, const DptSpec& spec, const ComputeKind& kind,
                at::Device device) {
  TensorSource source;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device to) {
    return weights.at(name).to(at::TensorOptions().device(to).dtype(type), false, /*copy=*/true);
  };
  Binder bind(&source, kind, device);
  return DptHead(bind, config, spec);
}

/// The head as vggt/heads/dpt_head.py has it. Norm in fp32 as autocast has it, or fp64; the rest in `type`.
class Reference {
 public:
  Reference(const Weights& weights, const Config& config, const DptSpec& spec, at::ScalarType type,
            at::Device device)
      : weights_(weights), config_(config), spec_(spec), type_(type), device_(device) {}

  at::Tensor run(const std::array<at::Tensor, 4>& tokens) const {
    std::array<at::Tensor, 4> maps;
    for (size_t level = 0; level < 4; ++level) maps[level] = reassemble(level, tokens[level]);
    at::Tensor x = fuse("4", maps[3], {}, maps[2]);
    x = fuse("3", x, maps[2], maps[1]);
    x = fuse("2", x, maps[1], maps[0]);
    x = fuse("1", x, maps[0], {});
    x = conv(x, "scratch.output_conv1", 1, 1);
    x = places(at::upsample_bilinear2d(x, {kHeight / spec_.down_ratio, kWidth / spec_.down_ratio}, true));
    if (spec_.outputs == 0) return x;
    return conv(at::relu(conv(x, "scratch.output_conv2.0", 1, 1)), "scratch.output_conv2.2", 1, 0);
  }

 private:
  at::Tensor weight(const std::string& name, at::ScalarType type) const {
    const auto found = weights_.find(spec_.name + "." + name);
    return found == weights_.end()
               ? at::Tensor()
               : found->second.to(at::TensorOptions().device(device_).dtype(type)).contiguous();
  }
  at::Tensor conv(const at::Tensor& x, const std::string& name, int64_t stride, int64_t padding) const {
    return at::conv2d(x, weight(name + ".weight", type_), weight(name + ".bias", type_), stride, padding);
  }
  at::Tensor upwards(const at::Tensor& x, const std::string& name, int64_t scale) const {
    return at::conv_transpose2d(x, weight(name + ".weight", type_), weight(name + ".bias", type_), scale);
  }
  at::Tensor unit(const at::Tensor& x, const std::string& name) const {
    const at::Tensor r = at::relu(x);
    return conv(at::relu(conv(r, name + ".conv1", 1, 1)), name + ".conv2", 1, 1) + r;
  }
  at::Tensor fuse(const std::string& level, at::Tensor x, const at::Tensor& skip,
                  const at::Tensor& next) const {
    const std::string name = "scratch.refinenet" + level;
    if (skip.defined()) x = x + unit(skip, name + ".resConfUnit1");
    x = unit(x, name + ".resConfUnit2");
    const int64_t rows = next.defined() ? next.size(2) : 2 * x.size(2),
                  columns = next.defined() ? next.size(3) : 2 * x.size(3);
    return conv(at::upsample_bilinear2d(x, {rows, columns}, true), name + ".out_conv", 1, 0);
  }
  /// x plus 0.1 of the UV embedding of its pixels.
  at::Tensor places(const at::Tensor& x) const {
    if (!spec_.position_embedding) return x;
    const int64_t channels = x.size(1), h = x.size(2), w = x.size(3);
    const double aspect = static_cast<double>(kWidth) / kHeight, diagonal = std::sqrt(aspect * aspect + 1);
    const at::Tensor omega =
        at::pow(100.0, -at::arange(channels / 4, at::kDouble) / static_cast<double>(channels / 4));
    const auto along = [&](int64_t n, double span) {
      const double edge = span * static_cast<double>(n - 1) / static_cast<double>(n);
      const at::Tensor angles =
          at::linspace(-edge, edge, n, at::kFloat).to(at::kDouble).unsqueeze(1) * omega;  // [n,channels/4]
      return at::cat({angles.sin(), angles.cos()}, 1).t();                                // [channels/2,n]
    };
    const int64_t half = channels / 2;
    const at::Tensor embedding = at::cat({along(w, aspect / diagonal).unsqueeze(1).expand({half, h, w}),
                                          along(h, 1 / diagonal).unsqueeze(2).expand({half, h, w})});
    return x + (0.1 * embedding).to(at::TensorOptions().device(device_).dtype(type_));
  }
  at::Tensor reassemble(size_t level, const at::Tensor& tokens) const {
    const at::ScalarType of_norm = type_ == at::kDouble ? at::kDouble : at::kFloat;
    const int64_t special = config_.special_tokens();
    at::Tensor x = tokens.to(of_norm).narrow(1, special, kRows * kColumns);
    x = at::layer_norm(x, {x.size(2)}, weight("norm.weight", of_norm), weight("norm.bias", of_norm), 1e-5);
    x = x.to(type_).transpose(1, 2).reshape({x.size(0), x.size(2), kRows, kColumns});
    x = places(conv(x, "projects." + std::to_string(level), 1, 0));
    if (level == 0) x = upwards(x, "resize_layers.0", 4);
    if (level == 1) x = upwards(x, "resize_layers.1", 2);
    if (level == 3) x = conv(x, "resize_layers.3", 2, 1);
    return conv(x, "scratch.layer" + std::to_string(level + 1) + "_rn", 1, 1);
  }

  const Weights& weights_;
  const Config& config_;
  const DptSpec& spec_;
  at::ScalarType type_;
  at::Device device_;
};

double relative(const at::Tensor& got, const at::Tensor& exact) {
  const at::Tensor wide = exact.to(at::kDouble);
  return ((got.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

class DenseHead : public testing::TestWithParam<std::tuple<at::DeviceType, const char*>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    at::manual_seed(8);
    at::globalContext().setAllowTF32CuBLAS(false);
    weights_ = random_weights_of(shapes_of(config_, spec()));
    for (at::Tensor& tokens : tokens_)
      tokens =
          at::randn({3, config_.special_tokens() + kRows * kColumns, 2 * config_.embed_dim}).to(device());
  }
  static at::Device device() { return at::Device(std::get<0>(GetParam())); }
  static DptSpec spec() {
    const std::string name = std::get<1>(GetParam());
    if (name == "features") return {"track_head.feature_extractor", 32, 0, 2, false};
    return {name + "_head", 32, name == "depth" ? 2 : 4, 1, true};
  }
  at::Tensor ours(const ComputeKind& kind) const {
    const DptHead head = head_of(weights_, config_, spec(), kind, device());
    std::array<at::Tensor, 4> patches;
    for (size_t level = 0; level < 4; ++level) {
      patches[level] = head.project(level, tokens_[level].to(kind.state)).contiguous();
      EXPECT_EQ(patches[level].scalar_type(), kind.operand);
      EXPECT_EQ(patches[level].sizes(), at::IntArrayRef({3, kRows * kColumns, head.channels(level)}));
    }
    return head.forward(patches, kHeight, kWidth, head.places(kHeight, kWidth));
  }
  at::Tensor reference(at::ScalarType type) const {
    const DptSpec of = spec();
    return Reference(weights_, config_, of, type, device()).run(tokens_);
  }

  Config config_ = small_config();
  Weights weights_;
  std::array<at::Tensor, 4> tokens_;  // [F,P,2C] each
};

TEST_P(DenseHead, IsTheReferencesInFloat64) {
  const at::Tensor exact = reference(at::kDouble), got = ours({at::kDouble, at::kDouble});
  EXPECT_EQ(got.sizes(), exact.sizes());
  EXPECT_LE(relative(got, exact), 1e-7);  // its coordinates are fp32
}

TEST_P(DenseHead, IsNoFurtherFromFloat64InBf16ThanTheReference) {
  const at::Tensor exact = reference(at::kDouble);
  const at::Tensor got = ours({at::kBFloat16, at::kFloat});
  EXPECT_EQ(got.scalar_type(), spec().outputs > 0 ? at::kFloat : at::kBFloat16);
  const double error = relative(got, exact), theirs = relative(reference(at::kBFloat16), exact),
               fp32 = relative(ours({at::kFloat, at::kFloat}), exact);
  std::printf("error against float64: bf16 %.2e, PyTorch's %.2e, fp32 %.2e\n", error, theirs, fp32);
  EXPECT_LE(error, 1.1 * theirs);
  EXPECT_LE(fp32, 1e-5);
  EXPECT_GT(error, 20 * fp32);  // it was in bf16
}

const auto kHeads = testing::Values("depth", "point", "features");
INSTANTIATE_TEST_SUITE_P(Cpu, DenseHead, testing::Combine(testing::Values(at::kCPU), kHeads));
INSTANTIATE_TEST_SUITE_P(Cuda, DenseHead, testing::Combine(testing::Values(at::kCUDA), kHeads));

// The tracker computes in fp32 with features in bf16.
TEST(DenseHead, FeaturesInBf16MakeMapsInFp32) {
  Config config = small_config();
  config.num_heads = config.vit_num_heads = config.camera_num_heads = 2;
  config.depth = config.vit_depth = 1;
  config.intermediate_layers = {0, 0, 0, 0};
  config.track_features = config.track_hidden = 32;
  config.track_depth = 1;
  config.track_corr_levels = 3;
  const ComputeKind exact{at::kFloat, at::kFloat}, features{at::kBFloat16, at::kFloat};
  Binder names(nullptr, exact, at::kCPU);
  TrackHead(names, config, exact);
  at::manual_seed(4);
  const Weights weights = random_weights_of(names.taken());
  TensorSource source;
  std::map<std::string, at::ScalarType> types;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device) {
    types[name] = type;
    return weights.at(name).to(type);
  };
  Binder bind(&source, exact, at::kCPU);
  const TrackHead head(bind, config, features);
  EXPECT_EQ(types.at("track_head.feature_extractor.scratch.output_conv1.weight"), at::kBFloat16);
  EXPECT_EQ(types.at("track_head.tracker.corr_mlp.fc1.weight"), at::kFloat);
  std::array<at::Tensor, 4> patches;
  for (size_t level = 0; level < 4; ++level)
    patches[level] = at::randn({2, kRows * kColumns, config.dpt_out_channels[level]}).to(at::kBFloat16);
  FeaturePyramid pyramid = head.make_pyramid(2, {});
  head.add_maps(pyramid, 0, head.feature_maps(patches, kHeight, kWidth));
  EXPECT_EQ(pyramid.get(0, 1)[0].scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace vggt
