#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "model/config.h"
#include "tests/fuzz/check_config.h"

// config.json and the tensors together tell the architecture, and neither may contradict the other.
namespace vggt {
namespace {

constexpr uint8_t kAllHeads = 15, kNoTensors = 16;

std::string refusal(const std::string& json, uint8_t heads = kAllHeads) {
  try {
    read_config(json, small_shapes(heads));
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

void expect_refused(const std::string& json, const std::string& words, uint8_t heads = kAllHeads) {
  const std::string text = refusal(json, heads);
  EXPECT_NE(text.find(words), std::string::npos) << json << ": '" << text << "'";
  EXPECT_LT(text.size(), 300U);
}

TEST(Config, TheTensorsTellAllButTheLayers) {
  const Config config = read_config(R"({"intermediate_layers": [0, 0, 1, 1]})", small_shapes(kAllHeads));
  EXPECT_EQ(config.img_size, 56);
  EXPECT_EQ(config.embed_dim, 64);
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.depth, 2);
  EXPECT_EQ(config.vit_depth, 1);
  EXPECT_EQ(config.camera_trunk_depth, 1);
  EXPECT_EQ(config.dpt_features, 32);
  EXPECT_EQ(config.track_corr_levels, 2);
  EXPECT_EQ(config.input_width, 56);
  EXPECT_FALSE(config.bundle_adjust);
  expect_refused("{}", "a config.json with intermediate_layers is needed");
}

TEST(Config, AConfigAloneIsEnough) {
  const Config config =
      read_config(R"({"intermediate_layers": [0, 0, 1, 1], "bundle_adjust": true})", small_shapes(kAllHeads));
  EXPECT_TRUE(config.bundle_adjust);
  EXPECT_EQ(config.fit, "crop");
  EXPECT_EQ(
      read_config(R"({"intermediate_layers": [0, 0, 1, 1], "fit": "whole"})", small_shapes(kAllHeads)).fit,
      "whole");
  const std::string text = config_to_json(config, heads_in(small_shapes(kAllHeads)));
  EXPECT_EQ(config_to_json(read_config(text, {}), heads_in(small_shapes(kAllHeads))), text);
  expect_refused(R"({"depth": 2})", "patch_size is missing", kNoTensors);
}

TEST(Config, IsRefusedWithItsKey) {
  const std::string layers = R"("intermediate_layers": [0, 0, 1, 1])";
  expect_refused("{" + layers + R"(, "embed_dim": 128})", "embed_dim is 128, but the tensors say 64");
  expect_refused("{" + layers + R"(, "depth": "two"})", "depth: expected an integer");
  expect_refused("{" + layers + R"(, "depth": 2.0})", "depth: expected an integer");
  expect_refused("{" + layers + R"(, "depth": -2})", "depth: expected an integer");
  expect_refused("{" + layers + R"(, "depth": 18446744073709551615})", "depth: expected an integer");
  expect_refused("{" + layers + R"(, "rope_freq": 0})", "rope_freq: expected a positive number");
  expect_refused("{" + layers + R"(, "rope_freq": 1e999})", "not valid JSON");
  expect_refused("{" + layers + R"(, "input_width": 57})", "input_width must be a multiple");
  expect_refused("{" + layers + R"(, "bundle_adjust": 1})", "bundle_adjust: expected true or false");
  for (const char* fit : {"1", "\"wide\"", "null", "[\"crop\"]"})
    expect_refused("{" + layers + ", \"fit\": " + fit + "}", "fit: not a choice");
  expect_refused("{" + layers + R"(, "camera_num_heads": 3})", "camera_num_heads");
  expect_refused("{" + layers + R"(, "depht": 2})", "unknown key 'depht'");
  expect_refused("{" + layers + R"(, "depth": 2, "depth": 2})", "the key 'depth' is there twice");
  expect_refused(R"({"intermediate_layers": [0, 0, 1]})", "a list of 4");
  expect_refused(R"({"intermediate_layers": [0, 0, 1, 2]})", "layer 2 of a depth of 2");
}

TEST(Config, IsRefusedIfItIsNoObject) {
  expect_refused("", "not valid JSON");
  expect_refused("[]", "expected an object");
  expect_refused("{\"depth\": 4", "not valid JSON");
  expect_refused("{\"x\": [[[[[[[[[[]]]]]]]]]]}", "nested too deeply");
  expect_refused(std::string(100000, '['), "nested too deeply");
  expect_refused("{\"x\": \"" + std::string(2 << 20, 'x') + "\"}", "larger than 1 MB");
}

}  // namespace
}  // namespace vggt
