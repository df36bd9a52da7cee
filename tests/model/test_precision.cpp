// Every precision and device against a float64 run of our own on the CPU.
// VGGT_PYTORCH_CUDA=<folder> adds PyTorch's own fp32 outputs on the same GPU (<case>.safetensors, made from
// the same weights and images): ours may then be at most twice as far from float64.
#include <ATen/Context.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "model/layers/block.h"
#include "tests/support/golden.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

struct Way {
  at::Device device;
  Precision precision;
  const char* name;
  double limit;  // of every tensor's relative error
  AttentionVariant attention = AttentionVariant::automatic;
  bool heads_in_bf16 = false;
};

struct Inputs {
  WeightFile file = WeightFile::open(fs::path(VGGT_FIXTURES) / "golden/nano/weights.pt");
  TensorSource source = testing::source_of(file);
  Config config = read_config(file.config_json(), source.shapes);
  Tensors golden = testing::load_tensors(fs::path(VGGT_FIXTURES) / "golden/nano/frames2_42x56.safetensors");

  ModelOptions options_of(at::Device device, Precision precision,
                          AttentionVariant attention = AttentionVariant::automatic) const {
    return {
        .device = device, .precision = precision, .heads = heads_in(source.shapes), .attention = attention};
  }
  Tensors run(const ModelOptions& options) const {
    const Precision precision = options.precision;
    at::globalContext().setAllowTF32CuBLAS(precision == Precision::tf32);
    const Vggt model(config, source, options);
    const at::ScalarType type = precision == Precision::fp64 ? at::kDouble : at::kFloat;
    return testing::run_all(model, golden.at("images").to(type), golden.at("query_points").to(type));
  }
};

/// PyTorch's outputs of the nano case on this machine's GPU, if the caller made them.
std::optional<Tensors> pytorch_cuda() {
  const char* folder = std::getenv("VGGT_PYTORCH_CUDA");
  if (folder == nullptr) return std::nullopt;
  return testing::load_tensors(fs::path(folder) / "nano.safetensors");
}

double error_of(const std::string& name, const Tensors& got, const Tensors& exact, const at::Tensor& query) {
  const at::Tensor origin = name.starts_with("track.") ? query.to(at::kDouble) : at::zeros({1}, at::kDouble);
  return testing::relative_error(got.at(name).to(at::kDouble) - origin, exact.at(name) - origin);
}

/// How much more than the other tensors one may differ. Tracks: the flow embedding amplifies the last bit of
/// a coordinate. Intrinsics: nano has a field of view of 0.29 beside values of 3.7, and the focal length
/// divides by it.
double slack(const std::string& name) {
  return name.starts_with("track") ? 20 : name == "intrinsic" ? 3 : 1;
}

class Precisions : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const Way& way = GetParam();
    if (way.device.is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
    const bool on_cpu_in_bf16 = way.device.is_cpu() && way.precision == Precision::bf16;
    if (way.attention == AttentionVariant::automatic && !on_cpu_in_bf16) return;
    const std::string reason = refusal([&] { check_model_options(inputs_.config, options()); });
    if (reason != "(accepted)") GTEST_SKIP() << reason;
  }
  ModelOptions options() const {
    ModelOptions options = inputs_.options_of(GetParam().device, GetParam().precision, GetParam().attention);
    options.heads_in_bf16 = GetParam().heads_in_bf16;
    return options;
  }
  Tensors exact() const { return inputs_.run(inputs_.options_of(at::kCPU, Precision::fp64)); }
  Tensors ours() const { return inputs_.run(options()); }

  Inputs inputs_;
};

TEST_P(Precisions, StaysCloseToFloat64) {
  const Way& way = GetParam();
  const at::Tensor query = inputs_.golden.at("query_points");
  const Tensors exact = this->exact(), got = ours();
  const bool compare_pytorch = way.device.is_cuda() && way.precision == Precision::fp32;
  const std::optional<Tensors> pytorch = compare_pytorch ? pytorch_cuda() : std::nullopt;
  for (const auto& [name, tensor] : exact) {
    const double error = error_of(name, got, exact, query);
    EXPECT_LE(error, way.limit * slack(name)) << name;
    if (!pytorch || !pytorch->contains(name)) continue;
    const double theirs = error_of(name, *pytorch, exact, query);
    std::printf("%-20s error against float64: ours %.2e, PyTorch %.2e\n", name.c_str(), error, theirs);
    EXPECT_LE(error, 2 * theirs + 2e-7)
        << name;  // the floor: one rounding of the largest value and its neighbours
  }
}

/// The golden case's sequences are all shorter than a tile.
TEST_P(Precisions, StaysCloseToFloat64OverLongSequences) {
  at::manual_seed(5);
  inputs_.golden["images"] = at::rand({4, 3, 112, 126});  // 8·9 + 5 tokens a frame
  const Tensors exact = this->exact(), got = ours();
  for (const char* name : {"pose_enc.3", "depth", "world_points"}) {
    ASSERT_TRUE(exact.contains(name)) << name;
    EXPECT_LE(testing::relative_error(got.at(name), exact.at(name)), GetParam().limit) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Precisions,
    ::testing::Values(
        Way{at::kCPU, Precision::fp32, "cpu_fp32", 5e-6},
        Way{at::kCPU, Precision::fp32, "cpu_heads_bf16", 5e-2, AttentionVariant::automatic, true},
                      Way{at::kCPU, Precision::bf16, "cpu_bf16", 5e-2},
        Way{at::kCUDA, Precision::bf16, "cuda_bf16_heads_bf16", 5e-2, AttentionVariant::automatic, true},
        Way{at::kCUDA, Precision::fp64, "cuda_fp64", 1e-12},
        Way{at::kCUDA, Precision::fp32, "cuda_fp32", 5e-6},
        Way{at::kCUDA, Precision::tf32, "cuda_tf32", 5e-3},
        Way{at::kCUDA, Precision::fp16, "cuda_fp16", 5e-3},
        Way{at::kCUDA, Precision::bf16, "cuda_bf16", 5e-2},
        Way{at::kCUDA, Precision::fp32, "cuda_fp32_strict", 5e-6, AttentionVariant::strict},
        Way{at::kCUDA, Precision::fp32, "cuda_fp32_split", 5e-6, AttentionVariant::split},
        Way{at::kCUDA, Precision::tf32, "cuda_tf32_turbo", 5e-3, AttentionVariant::turbo},
        Way{at::kCUDA, Precision::fp16, "cuda_fp16_half", 5e-3, AttentionVariant::half},
        Way{at::kCUDA, Precision::bf16, "cuda_bf16_half", 5e-2, AttentionVariant::half}),
    [](const auto& param) { return std::string(param.param.name); });

/// A block as Block computes it, by LibTorch's own layers, in the weights' type. x [B,N,C]
at::Tensor libtorch_block(at::Tensor x, const Tensors& w, int64_t heads) {
  const auto norm = [&](const std::string& name) {
    return at::layer_norm(x, {x.size(2)}, w.at(name + ".weight"), w.at(name + ".bias"), 1e-6);
  };
  const auto linear = [&](const at::Tensor& of, const std::string& name) {
    return at::linear(of, w.at(name + ".weight"), w.at(name + ".bias"));
  };
  const at::Tensor qkv = linear(norm("b.norm1"), "b.attn.qkv")
                             .view({x.size(0), x.size(1), 3, heads, x.size(2) / heads})
                             .permute({2, 0, 3, 1, 4});  // [3,B,A,N,D]
  const at::Tensor heads_out = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  x = x + w.at("b.ls1.gamma") * linear(heads_out.transpose(1, 2).reshape(x.sizes()), "b.attn.proj");
  const at::Tensor hidden = at::gelu(linear(norm("b.norm2"), "b.mlp.fc1"));
  return x + w.at("b.ls2.gamma") * linear(hidden, "b.mlp.fc2");
}

TEST(Precision, ABlockAsWideAsVggt1BsIsNoFurtherFromFloat64ThanLibTorchs) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const at::Device device(at::kCUDA, 0);
  const BlockSpec spec{.dim = 1024, .heads = 16, .norm_eps = 1e-6, .qk_norm = false};
  const auto random = [&](at::IntArrayRef shape) {
    return at::randn(shape, at::device(device).dtype(at::kFloat));
  };
  at::manual_seed(3);
  Binder names(nullptr, {at::kFloat, at::kFloat}, device);
  Block(names, "b", spec);
  Tensors weights, wide;
  for (const auto& [name, shape] : names.taken()) {
    const double deviation = shape.size() == 1 ? 0.1 : 1 / std::sqrt(static_cast<double>(shape[1]));
    const bool around_one =
        name.ends_with("gamma") || name.ends_with("norm1.weight") || name.ends_with("norm2.weight");
    weights[name] = random(shape) * deviation + (around_one ? 1 : 0);
    wide[name] = weights[name].to(at::kDouble);
  }
  TensorSource source;
  source.shapes = names.taken();
  source.load = [&](const std::string& name, at::ScalarType, at::Device) { return weights.at(name).clone(); };
  Binder bind(&source, {at::kFloat, at::kFloat}, device);
  const Block block(bind, "b", spec);
  for (const auto& [frames, tokens] : {std::pair<int64_t, int64_t>{4, 1041}, {1, 8328}}) {
    const at::Tensor x = random({frames, tokens, spec.dim});
    const at::Tensor exact = libtorch_block(x.to(at::kDouble), wide, spec.heads);
    const auto error = [&](const at::Tensor& got) {
      return ((got.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
    };
    const double theirs = error(libtorch_block(x, weights, spec.heads));
    at::Tensor ours = x.clone();
    block.forward_(ours);
    std::printf("%ld x %ld tokens: error against float64: ours %.2e, LibTorch's fp32 %.2e\n", frames, tokens,
                error(ours), theirs);
    EXPECT_LE(error(ours), theirs) << frames << " x " << tokens;
  }
}

TEST(Precision, ARunLeavesTheSettingsOfTheProcess) {
  const Inputs inputs;
  at::globalContext().setAllowTF32CuBLAS(false);
  const Vggt model(inputs.config, inputs.source, inputs.options_of(at::kCPU, Precision::fp32));
  for (const bool cudnn : {true, false}) {
    at::globalContext().setAllowTF32CuDNN(cudnn);
    int reports = 0;
    model.run(testing::provide(inputs.golden.at("images")), {}, {}, [&](const StageReport&) {
      ++reports;
      EXPECT_EQ(at::globalContext().allowTF32CuDNN(at::Float32Op::CONV), cudnn);
      EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
    });
    EXPECT_GT(reports, 0);
  }
  at::globalContext().setAllowTF32CuDNN(true);
}

TEST(Precision, AGpuModelRefusesAnotherTf32SettingOfTheProcess) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const Inputs inputs;
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const Vggt model(inputs.config, inputs.source, inputs.options_of(at::kCUDA, precision));
    at::globalContext().setAllowTF32CuBLAS(true);
    EXPECT_THROW(model.run(testing::provide(inputs.golden.at("images")), {}, {}), c10::Error);
    at::globalContext().setAllowTF32CuBLAS(false);
    model.run(testing::provide(inputs.golden.at("images")), {}, {});
  }
}

TEST(Precision, OfAGpuIsRefusedOnTheCpu) {
  const Inputs inputs;
  ModelOptions options{.device = at::kCPU, .precision = Precision::fp16, .heads = {.camera = true}};
  EXPECT_THROW(Vggt(inputs.config, inputs.source, options), std::invalid_argument);
}

TEST(Precision, HeadsInBf16AreRefusedBesideFp64) {
  const Inputs inputs;
  ModelOptions options = inputs.options_of(at::kCPU, Precision::fp64);
  options.heads_in_bf16 = true;
  EXPECT_EQ(refusal([&] { check_model_options(inputs.config, options); }),
            "heads in bf16 do not go with precision fp64");
}

// What the dense heads do not make stays as it is, bit for bit; what they make has changed.
TEST(Precision, HeadsInBf16ChangeWhatDenseHeadsMakeAlone) {
  const Inputs inputs;
  ModelOptions options = inputs.options_of(at::kCPU, Precision::fp32);
  const Tensors before = inputs.run(options);
  options.heads_in_bf16 = true;
  const Tensors after = inputs.run(options);
  EXPECT_TRUE(at::equal(after.at("pose_enc.3"), before.at("pose_enc.3")));
  for (const char* name : {"depth", "depth_conf", "world_points", "world_points_conf", "track.0"}) {
    EXPECT_EQ(after.at(name).scalar_type(), at::kFloat) << name;
    EXPECT_GT(testing::relative_error(after.at(name), before.at(name)), 1e-6) << name;
  }
}

TEST(Precision, AnAttentionOfGpusIsRefusedOnTheCpu) {
  const Inputs inputs;
  for (auto variant : {AttentionVariant::strict, AttentionVariant::split, AttentionVariant::turbo,
                       AttentionVariant::half, AttentionVariant::sdpa}) {
    EXPECT_THROW(check_model_options(inputs.config, inputs.options_of(at::kCPU, Precision::fp32, variant)),
                 std::invalid_argument);
  }
  check_model_options(inputs.config, inputs.options_of(at::kCPU, Precision::fp32));
}

TEST(Precision, AnAttentionForOtherTypesIsRefusedOnAGpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const Inputs inputs;
  const auto refused = [&](Precision precision, AttentionVariant variant) {
    EXPECT_THROW(check_model_options(inputs.config, inputs.options_of(at::kCUDA, precision, variant)),
                 std::invalid_argument);
  };
  refused(Precision::fp32, AttentionVariant::half);
  refused(Precision::fp32, AttentionVariant::turbo);
  refused(Precision::fp16, AttentionVariant::strict);
  refused(Precision::fp16, AttentionVariant::split);
  refused(Precision::fp64, AttentionVariant::strict);
}

TEST(Precision, MissingGpuIsRefused) {
  if (at::globalContext().hasCUDA()) GTEST_SKIP() << "there is a GPU here";
  const Inputs inputs;
  ModelOptions options{.device = at::kCUDA, .precision = Precision::fp32, .heads = {.camera = true}};
  EXPECT_THROW(Vggt(inputs.config, inputs.source, options), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
