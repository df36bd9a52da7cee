// `vggt-recon weights`.
#include <gtest/gtest.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, WeightsAreMadeInspectedConvertedAndUsed) {
  const std::string config = (kFixtures / "golden/nano/config.json").string();
  ASSERT_EQ(run("weights random --config '" + config + "' r.safetensors --seed 3").code, 0);
  ASSERT_EQ(run("weights convert r.safetensors r.ts --type fp16").code, 0);
  for (const char* file : {"r.safetensors", "r.ts"}) {
    EXPECT_EQ(run(std::string("weights verify ") + file).code, 0);
    const Outcome inspected = run(std::string("weights inspect ") + file);
    EXPECT_EQ(inspected.code, 0) << inspected.err;
    EXPECT_NE(inspected.out.find("camera, depth, points, tracks"), std::string::npos) << inspected.out;
    EXPECT_NE(inspected.out.find("\"track_corr_levels\": 2"), std::string::npos) << inspected.out;
    const Outcome used =
        run(std::string("--device cpu --frames frames --out out/ --points head --weights ") + file);
    EXPECT_EQ(used.code, 0) << used.err;
    EXPECT_GT(parse_strictly(path("out/scene.report.json"))["points"], 0);
  }
  ASSERT_EQ(run("weights random --config '" + config + "' again.safetensors --seed 3").code, 0);
  EXPECT_TRUE(text_of(path("again.safetensors")) == text_of(path("r.safetensors")));
  ASSERT_EQ(run("weights random --config '" + config + "' other.safetensors --seed 4").code, 0);
  EXPECT_FALSE(text_of(path("other.safetensors")) == text_of(path("r.safetensors")));
  expect_refusal(run("weights convert r.ts x.onnx"), "x.onnx");
  expect_refusal(run("weights convert r.ts ./r.ts --type bf16"),
                 "would replace the weights that are converted");
  expect_refusal(run("weights inspect stdout"), "stdout");
  write(dir_ / "c.json", "{\"depth\": -3}");
  expect_refusal(run("weights random --config c.json x.ts"), "c.json: ");
}

}  // namespace
}  // namespace vggt::test
