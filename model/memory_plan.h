#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/cuda/cuda_plan.h"
#include "attention/stream/stream_plan.h"
#include "attention/variant.h"
#include "model/config.h"
#include "model/heads/track_sizes.h"
#include "model/merge_options.h"
#include "model/precision.h"
#include "model/schedule.h"

// How much memory a run takes and in what pieces it works: arithmetic alone, without tensors or devices.
namespace vggt {

struct MemoryRequest {
  Config config;
  Heads heads;
  TensorShapes tensors;  // expected_tensors(config, heads)
  Precision precision = Precision::fp32;
  std::optional<CudaDevice> gpu;  // none: the CPU
  bool bf16_attention = false;    // of the CPU: takes bf16 as it is, else as copies in fp32
  bool screened_matches = false;  // of the CPU: can_screen_matches()
  AttentionVariant attention = AttentionVariant::automatic;
  int64_t frames = 1, height = 0, width = 0;  // pixels, multiples of the patch size
  int64_t query_points = 0;
  bool heads_in_bf16 = false;    // as in ModelOptions
  int64_t frames_per_chunk = 0;  // of the patch embedder and the dense heads; 0: the plan's
  std::optional<MergeOptions> merge = {};
  int64_t ranks = 1;             // that share the frames; the plan is of the one with most of them
  bool begin_heads = false;      // as in ModelOptions
  bool weights_on_host = false;  // as in ModelOptions: they may then be streamed
  bool checkpoints = false;      // as in RunOptions: they take room beside the scratch files
  int trunk_states = 2;          // in a checkpoint at once: as it was and as it is; fewer in a short run
  MemoryBudget budget = {};

  /// The track head needs points to follow.
  bool runs_tracker() const { return heads.tracks && query_points > 0; }
};

struct MemoryTerm {
  std::string name;
  int64_t bytes = 0;
};

/// Bytes that a stage copies between the device, the host and scratch files.
struct Traffic {
  int64_t to_device = 0, to_host = 0;        // between host and device
  int64_t from_scratch = 0, to_scratch = 0;  // between files and the host
};

/// What is alive at the worst moment of one stage, the weights left out.
struct StageMemory {
  std::string stage;  // as in StageReport; "frame_block" and "global_block" in place of "aggregator"
  std::vector<MemoryTerm> terms;
  Traffic traffic = {};  // of the whole stage, over all blocks

  int64_t bytes() const;
};

struct MemoryPlan {
  Schedule schedule;
  TrackSizes track;
  StreamChoice stream = {};  // where q, k and v lie outside the device

  int64_t weight_bytes = 0;    // on the device during the whole run
  int64_t host_bytes = 0;      // of the network's own tensors and weights, at most, those pinned included
  int64_t pinned_bytes = 0;    // of them what the tracker pins
  int64_t scratch_bytes = 0;   // of files, at most
  int64_t kept_bytes = 0;      // of them what a checkpoint keeps until the run ends
  int64_t map_file_bytes = 0;  // and the maps of heads that have not run
  std::vector<StageMemory> stages;  // those that run, in their order
  bool fits = true;                 // in the budget; else it is the smallest plan

  /// Bytes allocated on the device at the worst moment of the run, or of one stage; weights included.
  int64_t peak_bytes() const;
  int64_t peak_bytes(const std::string& stage) const;
};

/// How a run works and the bytes that it takes: of the plans that fit the budget the fastest, else the
/// smallest. Counts tensors: not what LibTorch's allocator keeps in reserve, the CUDA context, or what the
/// CPU's kernels and cuDNN take for themselves. at_least: passes over so many plans, for a run that ran out
/// of memory with the one before.
MemoryPlan plan_memory(const MemoryRequest& request, int at_least = 0);

/// A plan in a few words: where things lie, and the peaks.
std::string plan_text(const MemoryPlan& plan);

/// One line for a plan that does not fit its budget: what is lacking, and what would do.
std::string budget_refusal(const MemoryRequest& request, const MemoryPlan& smallest);

/// Bytes of all weights of these heads, in the types that they are used in.
int64_t weight_bytes(const MemoryRequest& request);

}  // namespace vggt
