// Every precision and device against a float64 run of our own on the CPU.
// VGGT_PYTORCH_CUDA=<folder> adds PyTorch's own fp32 outputs on the same GPU (<case>.safetensors, made from
// the same weights and images): ours may then be at most twice as far from float64.
#include <ATen/Context.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tests/golden.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

struct Way {
  at::Device device;
  Precision precision;
  const char* name;
  double limit;  // of every tensor's relative error
};

struct Inputs {
  WeightFile file = WeightFile::open(fs::path(VGGT_FIXTURES) / "golden/nano/weights.safetensors");
  TensorSource source = testing::source_of(file);
  Config config = read_config(file.config_json(), source.shapes);
  Tensors golden = testing::load_tensors(fs::path(VGGT_FIXTURES) / "golden/nano/frames2_42x56.safetensors");

  Tensors run(at::Device device, Precision precision) const {
    ModelOptions options{.device = device, .precision = precision, .heads = heads_in(source.shapes)};
    Vggt model(config, source, options);
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

class Precisions : public ::testing::TestWithParam<Way> {};

TEST_P(Precisions, StaysCloseToFloat64) {
  const Way& way = GetParam();
  if (way.device.is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const Inputs inputs;
  const at::Tensor query = inputs.golden.at("query_points");
  const Tensors exact = inputs.run(at::kCPU, Precision::fp64), got = inputs.run(way.device, way.precision);
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

INSTANTIATE_TEST_SUITE_P(All, Precisions,
                         ::testing::Values(Way{at::kCPU, Precision::fp32, "cpu_fp32", 5e-6},
                                           Way{at::kCUDA, Precision::fp64, "cuda_fp64", 1e-12},
                                           Way{at::kCUDA, Precision::fp32, "cuda_fp32", 5e-6},
                                           Way{at::kCUDA, Precision::tf32, "cuda_tf32", 5e-3},
                                           Way{at::kCUDA, Precision::fp16, "cuda_fp16", 5e-3},
                                           Way{at::kCUDA, Precision::bf16, "cuda_bf16", 5e-2}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Precision, OfAGpuIsRefusedOnTheCpu) {
  const Inputs inputs;
  ModelOptions options{.device = at::kCPU, .precision = Precision::bf16, .heads = {.camera = true}};
  EXPECT_THROW(Vggt(inputs.config, inputs.source, options), std::invalid_argument);
}

TEST(Precision, MissingGpuIsRefused) {
  if (at::globalContext().hasCUDA()) GTEST_SKIP() << "there is a GPU here";
  const Inputs inputs;
  ModelOptions options{.device = at::kCUDA, .precision = Precision::fp32, .heads = {.camera = true}};
  EXPECT_THROW(Vggt(inputs.config, inputs.source, options), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
