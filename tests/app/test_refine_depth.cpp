// Refined depth in runs of the program, with a refiner whose answer is known.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "io/weights/weight_file.h"
#include "io/weights/weight_writer.h"
#include "model/refine/depth_refiner.h"
#include "tests/support/cli.h"
#include "tests/support/golden_refiner.h"

namespace vggt::test {
namespace {

const std::string kSmall = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
const std::string kRun =
    " --device cpu --frames '" VGGT_SOURCE_DIR "/examples/room' --width 168 --max-frames 4";

class RefinedDepth : public CliTest {
 protected:
  using Tensors = std::map<std::string, at::Tensor>;

  /// The network of the model that ships.
  static Tensors network() {
    const WeightFile small = WeightFile::open(kSmall);
    Tensors tensors;
    for (const auto& [tensor, stored] : small.tensors()) {
      if (!tensor.starts_with(kRefinerPrefix)) tensors[tensor] = small.load(tensor, at::kFloat, at::kCPU);
    }
    return tensors;
  }

  void write_weights(const std::string& name, const Tensors& tensors) {
    std::vector<TensorSpec> specs;
    for (const auto& [tensor, values] : tensors) specs.push_back({tensor, at::kFloat, values.sizes().vec()});
    write_safetensors(
        path(name), specs, [&](const TensorSpec& spec) { return tensors.at(spec.name); },
        WeightFile::open(kSmall).config_json());
  }

  /// That network with a refiner that makes all depth e^.2 times what it was.
  void make_weights(const std::string& name, bool lacks_one = false, bool is_damaged = false) {
    Tensors tensors = network();
    for (const auto& [tensor, values] : testing::refiner_weights()) tensors[tensor] = values.clone();
    const auto refiner = [&](const char* tensor) { return tensors.at(std::string(kRefinerPrefix) + tensor); };
    constexpr double kSure = 1000;
    const at::Tensor change = refiner("change.bias"), shares = refiner("sharpen_out.bias").view({16, 12});
    refiner("change.weight").zero_();
    change.zero_();
    change[refiner("offsets").size(0) - 1] = kSure;  // the largest offset
    refiner("sharpen_out.weight").zero_();
    shares.zero_();
    shares.select(1, 9).fill_(kSure);  // each pixel is made of its own depth
    if (is_damaged) refiner("leave.first.bias")[0] = std::nanf("");
    if (lacks_one) tensors.erase(std::string(kRefinerPrefix) + "leave.first.bias");
    write_weights(name, tensors);
  }

  std::map<std::string, at::Tensor> predictions(const std::string& options) {
    const Outcome outcome = run(options + kRun + " --save-predictions pred.safetensors");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const WeightFile file = WeightFile::open(path("pred.safetensors"));
    std::map<std::string, at::Tensor> found;
    for (const char* name : {"depth", "depth_conf", "extrinsic", "intrinsic"})
      found[name] = file.load(name, at::kFloat, at::kCPU);
    return found;
  }
};

TEST_F(RefinedDepth, FollowsTheAdjustment) {
  make_weights("refined.safetensors");
  const auto with = predictions("--weights refined.safetensors"),
             without = predictions("--weights refined.safetensors --refine-depth off"),
             small = predictions("--weights '" + kSmall + "' --refine-depth off");
  for (const auto& [name, values] : small) EXPECT_TRUE(at::equal(values, without.at(name))) << name;
  for (const char* name : {"depth_conf", "extrinsic", "intrinsic"})
    EXPECT_TRUE(at::equal(with.at(name), without.at(name))) << name;
  const at::Tensor change = (with.at("depth") / without.at("depth")).log();
  EXPECT_LT((change - .2).abs().max().item<double>(), 1e-4);
}

TEST_F(RefinedDepth, IsOfAdjustedScenesAlone) {
  make_weights("refined.safetensors");
  const auto refined = predictions("--weights refined.safetensors --bundle-adjust off"),
             small = predictions("--weights '" + kSmall + "' --bundle-adjust off");
  EXPECT_TRUE(at::equal(refined.at("depth"), small.at("depth")));
  expect_refusal(run("--weights refined.safetensors --bundle-adjust off --refine-depth on --out o/" + kRun),
                 "refine-depth: needs adjusted cameras");
  write_weights("network.safetensors", network());
  expect_refusal(run("--weights network.safetensors --refine-depth on --out o/" + kRun),
                 "refine-depth: the weights have no depth refiner");
}

TEST_F(RefinedDepth, TheModelThatShipsIsNearerToTheTruthWithIt) {
  const std::string room = "'" VGGT_SOURCE_DIR "/examples/room";
  const auto error = [&](const std::string& options) {
    EXPECT_EQ(run(options + kRun + " --out scene.ply --save-predictions pred.safetensors").code, 0);
    EXPECT_EQ(run("eval --result scene.cameras.json pred.safetensors --truth " + room + "/transforms.json' " +
                  room + "/depth' --json eval.json")
                  .code,
              0);
    return parse_strictly(path("eval.json"))["depth"]["abs_rel"].get<double>();
  };
  EXPECT_LT(error(""), .95 * error("--refine-depth off"));
}

TEST_F(RefinedDepth, ARefinerThatLacksATensorIsRefusedBeforeTheRun) {
  make_weights("lacking.safetensors", /*lacks_one=*/true);
  const Outcome outcome = run("--weights lacking.safetensors --out o/" + kRun);
  expect_refusal(outcome, "missing: depth_refiner.leave.first.bias");
  EXPECT_NE(outcome.err.find("lacking.safetensors"), std::string::npos);
}

TEST_F(RefinedDepth, ADamagedRefinerIsRefusedBeforeTheNetworkRuns) {
  make_weights("damaged.safetensors", false, /*is_damaged=*/true);
  const Outcome outcome = run("--verbose --weights damaged.safetensors --out o/" + kRun);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("depth_refiner.leave.first.bias"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("aggregator"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(path("o")));
}

TEST_F(RefinedDepth, WhereItIsAskedForItsLackIsToldOf) {
  make_weights("refined.safetensors");
  fs::create_directory(dir_ / "one");
  fs::copy_file(VGGT_SOURCE_DIR "/examples/room/00.jpg", path("one/00.jpg"));
  const std::string one = " --device cpu --frames one --width 168 --weights refined.safetensors";
  const Outcome asked = run("--refine-depth on --out o/" + one), not_asked = run("--out p/" + one);
  EXPECT_EQ(asked.code, 0) << asked.err;
  const std::string warning = "warning: depth is not refined, as the cameras are not adjusted";
  EXPECT_NE(asked.err.find(warning), std::string::npos) << asked.err;
  EXPECT_EQ(not_asked.code, 0) << not_asked.err;
  EXPECT_EQ(not_asked.err.find(warning), std::string::npos) << not_asked.err;
}

TEST_F(RefinedDepth, IsPartOfTheWeightsAndOfTheReport) {
  make_weights("refined.safetensors");
  ASSERT_EQ(run("weights convert refined.safetensors refined.ts --type fp16").code, 0);
  EXPECT_NE(run("weights inspect refined.ts").out.find("refiner:    of depth"), std::string::npos);
  const Outcome outcome = run("--weights refined.ts --out o/" + kRun);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("; depth refined"), std::string::npos)
      << outcome.out << outcome.err;
  const json report = parse_strictly(path("o/scene.report.json"));
  EXPECT_GT(report["seconds"]["refinement"], 0);
  ASSERT_EQ(run("--weights refined.ts --out o/" + kRun).code, 0);
  EXPECT_GT(parse_strictly(path("o/scene.report.json"))["predicted_seconds"]["refinement"], 0);
}

}  // namespace
}  // namespace vggt::test
