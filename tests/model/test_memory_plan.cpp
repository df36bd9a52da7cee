// How much memory a run takes, as arithmetic: no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "model/layers/work_sizes.h"
#include "model/vggt.h"

namespace vggt {
namespace {

constexpr double kGiB = 1 << 30;

CudaDevice hopper() {
  CudaDevice device;
  device.capability = 90;
  device.strict = device.mma = device.wgmma = true;
  return device;
}

MemoryRequest request(Precision precision, int64_t frames, const Heads& heads = {true, true, false, false}) {
  MemoryRequest r;
  r.heads = heads;
  r.tensors = expected_tensors(r.config, heads);
  r.precision = precision;
  r.gpu = hopper();
  r.frames = frames;
  r.height = 392;
  r.width = 518;
  return r;
}

const MemoryTerm& term(const MemoryPlan& plan, const std::string& stage, const std::string& name) {
  for (const StageMemory& s : plan.stages) {
    if (s.stage != stage) continue;
    for (const MemoryTerm& t : s.terms) {
      if (t.name == name) return t;
    }
  }
  throw std::invalid_argument(stage + " has no " + name);
}

int64_t pyramid_bytes(const MemoryPlan& plan) {
  return term(plan, "track_head", "feature maps on the device").bytes;
}

TEST(MemoryPlan, OneBlockOfASmallModelByHand) {
  MemoryRequest r;
  r.config.embed_dim = 8;
  r.config.patch_size = 2;
  r.config.num_register_tokens = 1;
  r.config.depth = 2;
  r.config.intermediate_layers = {0, 0, 1, 1};
  r.heads = {.camera = true};
  r.tensors = {
      {"aggregator.a.weight", {3, 5}}, {"aggregator.norm.weight", {7}}, {"camera_head.b.weight", {2, 2}}};
  r.precision = Precision::bf16;
  r.gpu = hopper();
  r.frames = 3;
  r.height = 4;
  r.width = 6;  // 6 patches and 2 special tokens a frame: 24 tokens
  const MemoryPlan plan = plan_memory(r);
  constexpr int64_t kWorkspace = 32 << 20;  // cuBLAS's
  EXPECT_EQ(plan.weight_bytes, kWorkspace + 15 * 2 + 7 * 4 + 4 * 4);
  EXPECT_EQ(term(plan, "global_block", "residual").bytes, 24 * 8 * 4);
  EXPECT_EQ(term(plan, "global_block", "first half of a layer").bytes, 24 * 8 * 4);  // the last layer is kept
  EXPECT_EQ(term(plan, "global_block", "camera tokens").bytes, 3 * 16 * 4);
  // The MLP: attention's output; a copy of the piece; its sum; norm2 and the hidden layer in bf16.
  EXPECT_EQ(plan.peak_bytes("global_block"),
            plan.weight_bytes + 2 * 24 * 8 * 4 + 3 * 16 * 4 + 24 * 8 * (2 + 4 + 4 + 2 + 4 * 2));
  EXPECT_EQ(plan.peak_bytes("depth_head"), 0);
  EXPECT_EQ(plan.pinned_bytes, 0);
}

TEST(MemoryPlan, APeakIsItsTermsAndTheWeights) {
  MemoryRequest r = request(Precision::fp32, 40, {true, true, true, true});
  r.query_points = 100;
  const MemoryPlan plan = plan_memory(r);
  int64_t most = 0;
  for (const StageMemory& stage : plan.stages) {
    int64_t bytes = plan.weight_bytes;
    for (const MemoryTerm& t : stage.terms) {
      EXPECT_GE(t.bytes, 0) << stage.stage << ", " << t.name;
      bytes += t.bytes;
    }
    EXPECT_EQ(bytes, plan.peak_bytes(stage.stage));
    most = std::max(most, bytes);
  }
  EXPECT_EQ(plan.stages.size(), 7u);
  EXPECT_EQ(plan.peak_bytes(), most);
}

TEST(MemoryPlan, MoreFramesNeverTakeLess) {
  for (const bool on_gpu : {true, false}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp64}) {
      MemoryRequest r = request(precision, 1, {true, true, true, true});
      if (!on_gpu) r.gpu.reset();
      r.query_points = 256;
      if (precision == Precision::tf32) r.merge = MergeOptions{.start = 3};
      MemoryPlan last = plan_memory(r);
      for (r.frames = 2; r.frames < 3000; r.frames = r.frames * 5 / 4 + 1) {
        const MemoryPlan plan = plan_memory(r);
        EXPECT_GE(plan.peak_bytes(), last.peak_bytes()) << r.frames;
        for (const StageMemory& stage : plan.stages)
          EXPECT_GE(plan.peak_bytes(stage.stage), last.peak_bytes(stage.stage)) << r.frames << stage.stage;
        EXPECT_GE(plan.pinned_bytes, last.pinned_bytes);
        last = plan;
      }
    }
  }
}

TEST(MemoryPlan, ChunksStayWithinTheirLimits) {
  MemoryRequest r = request(Precision::bf16, 1000, {true, true, true, true});
  r.query_points = 10;
  const MemoryPlan plan = plan_memory(r);
  EXPECT_EQ(plan.schedule.embed_frames, 2 * kBlockRows / 1041);
  EXPECT_EQ(plan.schedule.pass_frames, 2 * kBlockRows / 1041);
  EXPECT_EQ(plan.schedule.dense_frames, 7);
  EXPECT_LE(pyramid_bytes(plan), int64_t{6} << 30);
  EXPECT_GT(plan.pinned_bytes, 0);
  r.frames = 1000;
  r.frames_per_chunk = 12;
  EXPECT_EQ(plan_memory(r).schedule.embed_frames, 12);
  EXPECT_EQ(plan_memory(r).schedule.dense_frames, 12);
  r.frames = 50;  // of which seven at a time would take more than the trunk
  r.frames_per_chunk = 0;
  r.heads = {true, true, false, false};
  EXPECT_EQ(plan_memory(r).schedule.dense_frames, 6);
  const auto gpu = std::exchange(r.gpu, std::nullopt);
  EXPECT_EQ(plan_memory(r).schedule.dense_frames, 1);  // on a CPU
  r.gpu = gpu;
  r.frames_per_chunk = 12;
  r.frames = 5;
  EXPECT_EQ(plan_memory(r).schedule.embed_frames, 5);
  r.height = r.width = 14 * 400;  // one frame is more than a chunk may be
  r.frames_per_chunk = 0;
  EXPECT_EQ(plan_memory(r).schedule.embed_frames, 1);
  EXPECT_EQ(plan_memory(r).schedule.dense_frames, 1);
}

TEST(MemoryPlan, RowsOfAWideBlockStayBelowLayerNormsLimit) {
  EXPECT_EQ(block_rows(1024, true), kBlockRows);
  EXPECT_EQ(block_rows(1024, false), kBlockRowsCpu);
  for (const int64_t dim : {int64_t{1024}, int64_t{8192}, int64_t{1} << 20}) {
    for (const bool gpu : {false, true}) {
      EXPECT_GE(block_rows(dim, gpu), 1);
      EXPECT_LE(block_rows(dim, gpu) * 4 * dim, kNormElements);
    }
  }
}

// Its blocks take two frames of 707 tokens at once, and so does what they keep for the dense heads.
TEST(MemoryPlan, ACpuKeepsLayersInItsBlocksPieces) {
  MemoryRequest r = request(Precision::fp32, 3);
  r.gpu.reset();
  r.height = 27 * 14;
  r.width = 26 * 14;
  EXPECT_EQ(term(plan_memory(r), "global_block", "both halves of a piece").bytes, 2 * 2 * 707 * 1024 * 4);
}

TEST(MemoryPlan, AMergedBlockByHand) {
  MemoryRequest r = request(Precision::bf16, 3, {.camera = true});
  r.height = r.width = 14 * 4;  // 21 tokens a frame, 63 in all: 21 + 2·(5 + 4) destinations, 24 sources
  r.merge = MergeOptions{.ratio = 0.2, .protect = 0.1};  // 12 merge, 6 are protected
  const MergeCounts counts = merge_counts(3, 4, 4, 5, *r.merge);
  EXPECT_EQ(counts.tokens, 63);
  EXPECT_EQ(counts.destinations, 39);
  EXPECT_EQ(counts.protected_tokens, 6);
  EXPECT_EQ(counts.protected_step, 10);
  EXPECT_EQ(counts.most_merged, 12);
  EXPECT_EQ(counts.most_rows(), 12 + 39 + 6);
  // With so few tokens the last layer's MLP is the widest step: of 57 rows, and a copy of all 63 tokens.
  const int64_t C = r.config.embed_dim;
  const MemoryPlan plan = plan_memory(r);
  EXPECT_EQ(term(plan, "global_block", "attention's output").bytes, 57 * C * 2);
  EXPECT_EQ(term(plan, "global_block", "copy of a piece").bytes, 63 * C * 4);
  EXPECT_EQ(term(plan, "global_block", "hidden layer of a piece of rows").bytes, 63 * 4 * C * 2);
}

TEST(MemoryPlan, MergingChangesGlobalBlocksAlone) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    MemoryRequest r = request(precision, 400);
    const MemoryPlan exact = plan_memory(r);
    r.merge = MergeOptions{};
    const MemoryPlan merged = plan_memory(r);
    EXPECT_EQ(merged.peak_bytes("frame_block"), exact.peak_bytes("frame_block"));
    EXPECT_EQ(merged.peak_bytes("depth_head"), exact.peak_bytes("depth_head"));
    const int64_t of_exact = exact.peak_bytes("global_block"), of_merged = merged.peak_bytes("global_block");
    EXPECT_LT(of_merged, of_exact);  // q, k and v one after another, and fewer rows of them
    r.merge->start = 5;              // exact blocks before it, which hold fewer of the heads' maps
    EXPECT_GE(plan_memory(r).peak_bytes("global_block"), of_merged);
    EXPECT_LE(plan_memory(r).peak_bytes("global_block"), of_exact);
    r.merge = MergeOptions{.start = 24};
    EXPECT_EQ(plan_memory(r).peak_bytes(), exact.peak_bytes());
    r.merge = MergeOptions{.ratio = 0};
    EXPECT_EQ(plan_memory(r).peak_bytes(), exact.peak_bytes());
  }
  // 1041 tokens a frame: the length that the description of FastVGGT names.
  const MergeCounts counts = merge_counts(400, 28, 37, 5, {});
  EXPECT_NEAR(static_cast<double>(counts.most_rows()) / static_cast<double>(counts.tokens), 0.349, 5e-4);
}

// Exact blocks before merged ones: q, k and v of the first lie in files, the merged rows' on the host.
TEST(MemoryPlan, MergedRowsWaitOnTheHostWhateverBlockMergingStartsWith) {
  MemoryRequest r = request(Precision::bf16, 400);
  r.gpu.reset();
  r.budget.scratch = "scratch";
  const auto plan_from = [&](int64_t start) {
    r.merge = MergeOptions{.start = start};
    r.budget.host = MemoryBudget::kUnlimited;
    r.budget.host = plan_memory(r).peak_bytes() / 3;
    const MemoryPlan plan = plan_memory(r);
    EXPECT_EQ(plan.schedule.qkv, Place::file) << start;
    return plan;
  };
  const MemoryPlan all = plan_from(0), late = plan_from(1), none = plan_from(24);
  EXPECT_GT(all.host_bytes, 800'000'000);
  EXPECT_EQ(late.host_bytes, all.host_bytes);
  EXPECT_EQ(none.host_bytes, 0);
  EXPECT_GT(late.scratch_bytes, all.scratch_bytes);
}

// What comes of the network lies beside the trunk not yet, beside the dense heads in part, and then all of it.
TEST(MemoryPlan, TrunkAndHeadsHaveWhatTheScenesMapsDoNotTakeYet) {
  MemoryRequest r = request(Precision::fp32, 100);
  r.gpu.reset();
  const MemoryPlan plan = plan_memory(r);
  const int64_t trunk = std::max(plan.peak_bytes("frame_block"), plan.peak_bytes("global_block")),
                heads = plan.peak_bytes("depth_head"), weights = plan.weight_bytes;
  ASSERT_GT(trunk, heads);
  ASSERT_GT(heads, weights);
  const auto fits = [&](int64_t in_trunk, int64_t in_heads, int64_t after) {
    r.budget.host = after;
    r.budget.more_in_trunk = in_trunk - after;
    r.budget.more_in_heads = in_heads - after;
    const MemoryPlan limited = plan_memory(r);
    return limited.fits && limited.peak_bytes() == plan.peak_bytes();
  };
  EXPECT_TRUE(fits(trunk, heads, weights));
  EXPECT_FALSE(fits(trunk - 1, heads, weights));
  EXPECT_FALSE(fits(trunk, heads - 1, weights));
  EXPECT_FALSE(fits(trunk, heads, weights - 1));
}

TEST(MemoryPlan, FramesTooSmallForTheTrackerAreRefusedWhereItRuns) {
  MemoryRequest r = request(Precision::bf16, 2, {true, true, true, true});
  r.config.track_corr_levels = 7;
  r.height = 126;
  EXPECT_NO_THROW(check_tracker_takes(r));  // without points it does not run
  r.query_points = 1;
  EXPECT_THROW(check_tracker_takes(r), std::invalid_argument);
  r.height = 140;
  EXPECT_NO_THROW(check_tracker_takes(r));
}

TEST(MemoryPlan, HeadsInBf16HoldHalfAsMuch) {
  MemoryRequest r = request(Precision::bf16, 400, {true, true, true, true});
  r.query_points = 100;
  r.frames_per_chunk = 7;
  const MemoryPlan wide = plan_memory(r);
  r.heads_in_bf16 = true;
  const MemoryPlan narrow = plan_memory(r);
  // What the heads read of four layers, and their largest maps.
  EXPECT_EQ(term(narrow, "camera_head", "heads' maps").bytes, int64_t{3} * 400 * 28 * 37 * 2816 * 2);
  EXPECT_EQ(term(narrow, "depth_head", "resized map").bytes, int64_t{7} * 392 * 518 * 128 * 2);
  EXPECT_EQ(term(narrow, "depth_head", "fused map").bytes, int64_t{7} * 64 * 28 * 37 * 128 * 2);
  for (const char* stage : {"camera_head", "depth_head"})
    EXPECT_EQ(term(wide, stage, "heads' maps").bytes, 2 * term(narrow, stage, "heads' maps").bytes) << stage;
  for (const char* stage : {"depth_head", "point_head"}) {
    EXPECT_EQ(wide.peak_bytes(stage) - wide.weight_bytes,
              2 * (narrow.peak_bytes(stage) - narrow.weight_bytes))
        << stage;
  }
  // The tracker computes in fp32.
  EXPECT_EQ(pyramid_bytes(wide), pyramid_bytes(narrow));
  // Matrices of three heads of some 32 million numbers each.
  const int64_t less = wide.weight_bytes - narrow.weight_bytes;
  EXPECT_GT(less, 3 * 2 * 25'000'000);
  EXPECT_LT(less, 3 * 2 * 35'000'000);
  EXPECT_LT(narrow.peak_bytes("global_block"), wide.peak_bytes("global_block"));
  r.frames_per_chunk = 0;
  EXPECT_EQ(plan_memory(r).schedule.dense_frames, 15);  // as many bytes as 7 in fp32
}

TEST(MemoryPlan, PartsOfAttentionAreMadeOfAFewHeadsAtATime) {
  const auto parts = [](Precision precision, int64_t frames) {
    return term(plan_memory(request(precision, frames)), "global_block", "parts of q, k, v").bytes;
  };
  constexpr int64_t kTokens = 28 * 37 + 5;
  EXPECT_EQ(parts(Precision::fp32, 100), 100 * kTokens * 1024 * 12);
  EXPECT_EQ(parts(Precision::fp32, 400), 400 * kTokens * 4 * 64 * 12);
  EXPECT_EQ(parts(Precision::tf32, 400), 400 * kTokens * 8 * 64 * 6);
  EXPECT_LT(plan_memory(request(Precision::fp32, 400)).peak_bytes(), static_cast<int64_t>(20 * kGiB));
}

TEST(MemoryPlan, ACpuWithoutBf16AttendsOnCopiesInFp32) {
  const auto cpu = [](Precision precision, bool bf16_attention) {
    MemoryRequest r = request(precision, 10);
    r.gpu.reset();
    r.bf16_attention = bf16_attention;
    return plan_memory(r);
  };
  const auto copies = [](const MemoryPlan& plan) {
    return term(plan, "global_block", "parts of q, k, v").bytes;
  };
  constexpr int64_t kTokens = 10 * (28 * 37 + 5);
  EXPECT_EQ(copies(cpu(Precision::bf16, false)), kTokens * 1024 * 4 * 4);
  EXPECT_EQ(copies(cpu(Precision::fp16, true)), kTokens * 1024 * 4 * 4);
  // Without them another step of the block takes most.
  EXPECT_LT(cpu(Precision::bf16, true).peak_bytes("global_block"),
            cpu(Precision::bf16, false).peak_bytes("global_block"));
}

// The tracker's operands are fp32 beside an aggregator in bf16 too.
TEST(MemoryPlan, TheTrackersProductsAreSplitInEveryPrecisionButTf32AndFp64) {
  const auto parts = [](Precision precision, int64_t frames, bool wgmma) {
    MemoryRequest r = request(precision, frames, {.tracks = true});
    r.query_points = 2000;
    r.height = r.width = 28;  // so that nothing is as large as the update transformer
    r.gpu->wgmma = wgmma;
    return term(plan_memory(r), "track_head", "its parts").bytes;
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    EXPECT_EQ(parts(precision, 20, true), 2064 * 20 * 4 * 384 * 4);
    EXPECT_EQ(parts(precision, 200, true), kSplitPieceBytes);
    EXPECT_EQ(parts(precision, 200, false), 0);
  }
  EXPECT_EQ(parts(Precision::tf32, 200, true), 0);
  EXPECT_EQ(parts(Precision::fp64, 200, true), 0);
}

struct Measured {
  Precision precision;
  bool merged;
  int64_t frames;
  double gib;
};

// Peaks of a run of bench_model on an H200: cameras and depth, heads in fp32.
TEST(MemoryPlan, IsWithinAFiftiethOfWhatAnH200Took) {
  constexpr Precision bf16 = Precision::bf16, fp32 = Precision::fp32;
  constexpr Measured kTable[] = {{bf16, false, 50, 3.95},  {bf16, false, 100, 5.03}, {bf16, true, 50, 3.95},
                                 {bf16, true, 100, 4.90},  {bf16, true, 200, 6.86},  {bf16, true, 400, 10.76},
                                 {fp32, true, 400, 13.56}, {fp32, false, 50, 6.48},  {fp32, false, 100, 8.62},
                                 {fp32, false, 400, 17.84}};
  for (const Measured& m : kTable) {
    MemoryRequest r = request(m.precision, m.frames);
    if (m.merged) r.merge = MergeOptions{};
    const double planned = static_cast<double>(plan_memory(r).peak_bytes()) / kGiB;
    EXPECT_NEAR(planned, m.gib, 0.02 * m.gib) << (m.precision == bf16 ? "bf16, " : "fp32, ") << m.frames
                                              << " frames" << (m.merged ? ", merged" : "");
  }
}

}  // namespace
}  // namespace vggt
