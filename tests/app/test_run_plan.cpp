// Options become a plan once, and what cannot be run is refused before any work, whoever sets the options.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "app/run/device.h"
#include "app/run/plan_table.h"
#include "app/run/process_memory.h"
#include "app/run/run_forecast.h"
#include "app/run/run_plan.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

Options valid() {
  Options options;
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
  options.device = "cpu";
  options.out = (fs::temp_directory_path() / "vggt_run_plan/").string();
  return options;
}

std::string refusal(const std::function<void(Options&)>& change) {
  Options options = valid();
  change(options);
  try {
    plan_run(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(PlanTable, SaysWhatEachRankHas) {
  RunPlan plan = plan_run(valid());
  MemoryRequest request = plan.memory;
  request.frames = 8;
  request.height = 252;
  request.width = 336;
  const auto table = [&] {
    const PlanComparison plans = compare_plans(request, MergeOptions(), std::nullopt);
    std::string text = plan_json(plans, {});
    for (const std::string& row : plan_rows(plans, {})) text += row + "\n";
    return text;
  };
  EXPECT_EQ(table().find("ranks"), std::string::npos);
  request.ranks = 3;
  EXPECT_NE(table().find("ranks:     frames 2 + 3 + 3, heads "), std::string::npos) << table();
  EXPECT_NE(table().find("\"ranks\": ["), std::string::npos);
  EXPECT_NO_THROW(check_fits(plan, plan_network(request, std::nullopt)));
  request.frames = 2;
  EXPECT_THROW(check_fits(plan, plan_network(request, std::nullopt)), std::invalid_argument);
}

// The first photograph may be a small one.
TEST(ProcessMemory, IsThatOfTheLargestImages) {
  const RunPlan plan = plan_run(valid());
  const auto origin = [&](const std::vector<std::pair<int, int>>& sizes) {
    FrameSet frames;
    for (const auto& [width, height] : sizes) {
      Frame& frame = frames.frames.emplace_back();
      frame.original_width = width;
      frame.original_height = height;
      frame.source_bytes = static_cast<std::size_t>(3) * static_cast<std::size_t>(width * height);
    }
    return origin_of(plan, frames);
  };
  const FrameOrigin mixed = origin({{780, 520}, {9000, 8000}, {640, 480}, {640, 480}});
  EXPECT_EQ(mixed.width, 9000);
  EXPECT_EQ(mixed.height, 8000);
  EXPECT_EQ(mixed.bytes, 3 * 72'000'000);
  EXPECT_EQ(mixed.as_large, 2);  // one, and all others are less than another one
  EXPECT_EQ(origin({{64, 48}, {64, 48}, {64, 48}}).as_large, 3);
}

// A large network is slow on a CPU long before its frames are many; a GPU is not.
TEST(RunForecast, MeasuresRatesWhereThatIsWorthIt) {
  const RunPlan plan = plan_run(valid());
  const auto is_worth = [](MemoryRequest request, int64_t frames) {
    request.frames = frames;
    request.height = 392;
    request.width = 518;
    return is_worth_rates(request, /*is_limited=*/false);
  };
  EXPECT_FALSE(is_worth(plan.memory, 19));
  EXPECT_TRUE(is_worth(plan.memory, 20));
  MemoryRequest large = plan.memory;
  large.config = Config();  // VGGT-1B
  large.tensors = expected_tensors(large.config, large.heads);
  EXPECT_FALSE(is_worth(large, 4));
  EXPECT_TRUE(is_worth(large, 5));
  EXPECT_FALSE(is_worth_rates(large, /*is_limited=*/true));
  large.gpu = CudaDevice();
  EXPECT_FALSE(is_worth(large, 19));
  EXPECT_TRUE(is_worth(large, 20));
}

TEST(RunPlan, HoldsWhatTheStagesNeed) {
  Options options = valid();
  options.voxel = 0.5;
  options.outliers = "7,1.5";
  options.picture = options.out + "p.png";
  options.picture_size = "320x200";
  options.max_frames = 3;
  options.fit = "pad";
  const RunPlan plan = plan_run(options);
  EXPECT_EQ(plan.frames.fit, Fit::pad);
  EXPECT_EQ(plan.frames.max_frames, 3);
  EXPECT_EQ(plan.frames.width, plan.model.config.input_width);
  EXPECT_TRUE(plan.model.options.heads.camera && plan.model.options.heads.depth);
  EXPECT_EQ(plan.model.options.precision, Precision::fp32);
  EXPECT_FALSE(plan.model.options.heads_in_bf16);
  EXPECT_EQ(plan.scene.source, CloudSource::depth);
  EXPECT_EQ(plan.scene.filters.voxel, 0.5);
  ASSERT_TRUE(plan.scene.filters.outliers);
  EXPECT_EQ(plan.scene.filters.outliers->neighbors, 7);
  EXPECT_EQ(plan.scene.filters.outliers->std_ratio, 1.5);
  EXPECT_EQ(plan.outputs.picture_width, 320);
  EXPECT_EQ(plan.outputs.picture_height, 200);
  EXPECT_EQ(plan.outputs.paths.all().size(), 5u);
  EXPECT_TRUE(plan.adjust.wanted);
  EXPECT_FALSE(plan.adjust.options.must);
  EXPECT_FALSE(fs::exists(options.out));  // nothing is written
}

TEST(RunPlan, DenseHeadsFollowTheTrunksPrecisionUnlessTold) {
  Options options = valid();
  options.head_precision = "bf16";
  EXPECT_TRUE(plan_run(options).model.options.heads_in_bf16);
  EXPECT_TRUE(plan_run(options).memory.heads_in_bf16);
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    const bool half = precision == Precision::bf16 || precision == Precision::fp16;
    EXPECT_EQ(choose_heads_in_bf16("auto", precision, at::kCPU), half);
    if (!half) {
      EXPECT_FALSE(choose_heads_in_bf16("auto", precision, at::Device(at::kCUDA, 0)));
    }
    EXPECT_TRUE(choose_heads_in_bf16("bf16", precision, at::kCPU));
    EXPECT_FALSE(choose_heads_in_bf16("fp32", precision, at::kCPU));
  }
}

// The small model was trained on whole frames, and says so; weights that say nothing were trained as VGGT
// was.
TEST(RunPlan, FitsFramesAsTheirWeightsWereTrained) {
  Options options = valid();
  EXPECT_EQ(options.fit, "auto");
  options.weights = VGGT_FIXTURES "/golden/nano/weights.ts";
  EXPECT_EQ(plan_run(options).frames.fit, Fit::crop);
  options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
  EXPECT_EQ(plan_run(options).frames.fit, Fit::whole);
  EXPECT_EQ(plan_run(options).frames.width, 336);  // of the archive itself
  options.fit = "crop";
  EXPECT_EQ(plan_run(options).frames.fit, Fit::crop);
}

TEST(RunPlan, OfAMeasurementNeedsNoOutputAndAdjustsNothing) {
  Options options = valid();
  options.picture = options.out + "p.png";
  EXPECT_TRUE(plan_measurement(options).outputs.paths.all().empty());
  options.out.clear();
  options.bundle_adjust = "auto";
  EXPECT_FALSE(plan_measurement(options).adjust.wanted);
  options.merge_ratio = 2;
  EXPECT_THROW(plan_measurement(options), std::invalid_argument);
}

TEST(RunPlan, AnAdjustmentThatWasAskedForMustBe) {
  Options options = valid();
  options.bundle_adjust = "auto";
  EXPECT_FALSE(plan_run(options).adjust.options.must);
  options.bundle_adjust = "on";
  EXPECT_TRUE(plan_run(options).adjust.options.must);
}

TEST(RunPlan, RefusesValuesThatNoTextWasParsedFor) {
  const auto refuses = [](const std::string& words, const std::function<void(Options&)>& change) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  refuses("--out is missing", [](Options& o) { o.out.clear(); });
  refuses("--frames is missing", [](Options& o) { o.frames.clear(); });
  refuses("fit: 'stretch' is not one of", [](Options& o) { o.fit = "stretch"; });
  refuses("points: 'cloud'", [](Options& o) { o.points = "cloud"; });
  refuses("bundle-adjust: 'perhaps'", [](Options& o) { o.bundle_adjust = "perhaps"; });
  refuses("attention: 'fast'", [](Options& o) { o.attention = "fast"; });
  refuses("precision: 'int8'", [](Options& o) { o.precision = "int8"; });
  refuses("head-precision: 'fp16'", [](Options& o) { o.head_precision = "fp16"; });
  refuses("heads: 'wings'", [](Options& o) { o.heads = {"camera", "wings"}; });
  refuses("device: 'cuda:x'", [](Options& o) { o.device = "cuda:x"; });
  refuses("voxel: '-1'", [](Options& o) { o.voxel = -1; });
  refuses("voxel: 'nan'", [](Options& o) { o.voxel = std::numeric_limits<double>::quiet_NaN(); });
  refuses("conf-percentile: '300'", [](Options& o) { o.conf_percentile = 300; });
  refuses("max-frames: '0'", [](Options& o) { o.max_frames = 0; });
  refuses("width", [](Options& o) { o.width = 13; });
  refuses("fps or stride", [](Options& o) { o.fps = o.stride = 2; });
  refuses("'tracks' needs --query-points", [](Options& o) { o.heads = {"tracks"}; });
  refuses("picture", [](Options& o) {
    o.out.clear();
    o.save_predictions = "p.safetensors";
    o.picture = "p.png";
  });
}

}  // namespace
}  // namespace vggt
