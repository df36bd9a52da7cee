#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/cuda/cuda_plan.h"
#include "attention/variant.h"
#include "model/config.h"
#include "model/heads/track_sizes.h"
#include "model/merge_options.h"
#include "model/precision.h"

// How much memory a run takes and in what pieces it works: arithmetic alone, without tensors or devices.
namespace vggt {

struct MemoryRequest {
  Config config;
  Heads heads;
  TensorShapes tensors;  // expected_tensors(config, heads)
  Precision precision = Precision::fp32;
  std::optional<CudaDevice> gpu;  // none: the CPU
  AttentionVariant attention = AttentionVariant::automatic;
  int64_t frames = 1, height = 0, width = 0;  // pixels, multiples of the patch size
  int64_t query_points = 0;
  int64_t frames_per_chunk = 0;  // of the patch embedder and the dense heads; 0: by size
  std::optional<MergeOptions> merge = {};
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
  int64_t embed_frames = 1;  // that the patch embedder takes at once
  int64_t dense_frames = 1;  // that a dense head takes at once, and the tracker's feature extractor
  TrackSizes track;

  int64_t weight_bytes = 0;
  int64_t pinned_bytes = 0;         // host memory that the tracker pins; not on the device
  std::vector<StageMemory> stages;  // those that run, in their order

  /// Bytes allocated on the device at the worst moment of the run, or of one stage; weights included.
  int64_t peak_bytes() const;
  int64_t peak_bytes(const std::string& stage) const;
};

/// Chunk sizes and predicted bytes of a run. Counts tensors: not what LibTorch's allocator keeps in reserve,
/// the CUDA context, or what the CPU's kernels and cuDNN take for themselves.
MemoryPlan plan_memory(const MemoryRequest& request);

}  // namespace vggt
