// A model unlike the golden ones in every size that may differ, against what the public PyTorch code made of
// the same weights in float64: no trunk in the camera head, a layer picked twice, patches of 8 pixels, 2
// registers, odd tracker sizes. Weights and images come from a formula, exact in fp32 and the same in any
// language.
#include <cmath>

#include "tests/support/golden.h"

namespace vggt {
namespace {

const Config kConfig = {.img_size = 24,
                        .patch_size = 8,
                        .embed_dim = 48,
                        .num_heads = 2,
                        .depth = 3,
                        .vit_depth = 1,
                        .vit_num_heads = 3,
                        .num_register_tokens = 2,
                        .rope_freq = 50,
                        .camera_num_heads = 4,
                        .camera_trunk_depth = 0,
                        .dpt_features = 16,
                        .dpt_out_channels = {8, 4, 12, 16},
                        .intermediate_layers = {2, 0, 0, 1},
                        .track_features = 12,
                        .track_hidden = 40,
                        .track_depth = 2,
                        .track_corr_levels = 3,
                        .input_width = 24};
constexpr Heads kHeads = {true, true, true, true};

/// Values in [-0.5, 0.5), multiples of 2^-16, from the hash of a name and the element's number.
at::Tensor made(const std::string& name, const std::vector<int64_t>& shape) {
  uint32_t start = 2166136261u;
  for (const char c : name) start = (start ^ static_cast<unsigned char>(c)) * 16777619u;
  at::Tensor values = at::empty(shape, at::kFloat);
  float* data = values.mutable_data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    uint32_t x = start + static_cast<uint32_t>(i) * 2654435761u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x ^= x >> 16;
    data[i] = static_cast<float>(x >> 16) / 65536 - 0.5f;
  }
  return values;
}

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

at::Tensor made_weight(const std::string& name, const std::vector<int64_t>& shape) {
  const at::Tensor values = made(name, shape);
  if (name.ends_with(".gamma")) return 0.5 + 0.5 * values;
  if (shape.size() == 1) {
    if (has(name, "norm") && name.ends_with("weight")) return 1 + 0.5 * values;
    at::Tensor bias = 0.25 * values;
    if (name == "camera_head.pose_branch.fc2.bias") bias.slice(0, 7).fill_(1);  // a field of view above 0
    return bias;
  }
  if (has(name, "token") || has(name, "pos_embed") || has(name, "virual")) return values;
  const double inputs = static_cast<double>(values.numel() / shape[0]);
  const double exponent = std::nearbyint(1.8 - 0.5 * std::log2(inputs)) - (has(name, "flow_head") ? 3 : 0);
  return values * std::exp2(exponent);
}

testing::Tensors run(Precision precision, const at::Tensor& query) {
  const TensorShapes shapes = expected_tensors(kConfig, kHeads);
  const TensorSource source = {shapes, [&](const std::string& name, at::ScalarType type, at::Device device) {
                                 return made_weight(name, shapes.at(name)).to(device, type);
                               }};
  const Config config = read_config(config_to_json(kConfig, kHeads), shapes);
  Vggt model(config, source, {.precision = precision, .heads = kHeads});
  const at::ScalarType type = precision == Precision::fp64 ? at::kDouble : at::kFloat;
  return testing::run_all(model, (made("images", {2, 3, 16, 8}) + 0.5).to(type), query.to(type));
}

// The tracker refines its own coordinates and multiplies what fp32 rounds away, in PyTorch too: in fp32 its
// error depends on the number of threads. So tracks come from a float64 run of ours.
TEST(OtherArchitecture, EqualsPyTorch) {
  testing::Tensors golden =
      testing::load_tensors(std::filesystem::path(VGGT_FIXTURES) / "golden/other_architecture.safetensors");
  const at::Tensor query = golden.at("query_points");
  golden.erase("query_points");
  const testing::Tensors single = run(Precision::fp32, query), exact = run(Precision::fp64, query);
  for (const auto& [name, expected] : golden) {
    const bool is_motion = name.starts_with("track."), is_track = name.starts_with("track");
    const testing::Tensors& got = is_track ? exact : single;
    ASSERT_TRUE(got.contains(name)) << name << " was not produced";
    const at::Tensor origin = is_motion ? query : at::zeros({1});
    const double limit = is_motion ? 1e-4 : is_track ? 2e-5 : 5e-6;  // those of test_parity.cpp
    const double error = testing::relative_error(got.at(name) - origin, expected - origin);
    std::printf("%-20s %.1e\n", name.c_str(), error);
    EXPECT_LE(error, limit) << name;
  }
}

}  // namespace
}  // namespace vggt
