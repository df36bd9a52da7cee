#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <optional>

#include "attention/variant.h"
#include "model/config.h"
#include "model/merge_options.h"
#include "model/precision.h"
#include "model/schedule.h"

namespace vggt {

class AttentionTuner;  // attention/tune/autotune.h
class Group;           // model/ranks/group.h

/// Where a run keeps what it has finished, so that a later one of the same model and frames goes on from
/// there: after the trunk what the heads read, inside it the tokens after a layer.
struct CheckpointOptions {
  std::filesystem::path folder;  // which exists, of this run alone
  double seconds = 60;           // from one checkpoint inside the trunk to the next, at least
};

/// How one run goes, whatever model it is of.
struct RunOptions {
  std::optional<MergeOptions> merge = {};  // in global attention; none: exact attention over all tokens
  MemoryBudget budget = {};                // that the run keeps, by plan_memory()
  int plans_passed = 0;  // it begins with a smaller plan than the first that fits, by so many
  std::optional<CheckpointOptions> checkpoints = {};
  /// Of a run that several ranks make together, each with a model of the same weights: rank 0 reads the
  /// frames and hands out the results; the others need the frames' number and size alone. No checkpoints, and
  /// memory that runs out ends the run. It must outlive the run.
  Group* group = nullptr;
};

/// How a model is loaded and run. On a GPU, LibTorch's own products in fp32 follow a setting of the process:
/// at::globalContext().setAllowTF32CuBLAS(), which must be true for Precision::tf32 and false (LibTorch's
/// default) for every other. The program makes it, once; the model only checks it and throws c10::Error.
struct ModelOptions {
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  Heads heads;  // which heads to load and run
  /// What the dense heads and the tracker's feature extractor read, their convolutions and maps are in bf16,
  /// with sums and the last layer in fp32; else as Precision says. Not beside fp64.
  bool heads_in_bf16 = false;
  int64_t frames_per_chunk = 0;  // frames of the patch embedder and the dense heads at once; 0: the plan's
  /// What computes the attention of frame, global, DINOv2 and camera blocks. Any but automatic needs CUDA.
  /// Where this is half, the camera head, which runs in fp32, takes automatic.
  AttentionVariant attention = AttentionVariant::automatic;
  AttentionTuner* tuner = nullptr;         // as in AttentionOptions; it must outlive the model
  bool begin_heads = false;                // on a GPU they work once while the rest loads (begin_heads.h)
  std::optional<MergeOptions> merge = {};  // of a run that is not told otherwise, as in RunOptions
  bool weights_on_host = false;            // of blocks and heads, until a run needs them
  MemoryBudget budget = {};                // likewise
  int plans_passed = 0;                    // likewise
};

/// Whether this processor has instructions for products in bf16 (AVX512-BF16 or AMX), without which a CPU
/// does not take Precision::bf16.
bool cpu_has_bf16();

/// Throws std::invalid_argument for a precision or an attention that the device, or a model of this
/// architecture, cannot have, and for merging that check_merge_options() refuses. Loads nothing.
void check_model_options(const Config& config, const ModelOptions& options);

}  // namespace vggt
