#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <optional>

#include "attention/tune/plan_cache.h"

namespace vggt {

/// vggt-recon/attention.json in the user's folder for caches; nothing where the environment names none.
std::optional<std::filesystem::path> attention_cache_path();

/// The plans that the file has for this GPU; none where it cannot be read or is no such file.
TunedPlans load_tuned_plans(const std::filesystem::path& path, const TunedGpu& gpu);

/// Adds plans to the file, which other processes may be writing too: one of them wins, and none finds half a
/// file. Where it cannot be written there will be no cache.
void save_tuned_plans(const std::filesystem::path& path, const TunedGpu& gpu, const TunedPlans& plans);

/// What measures attention on a GPU, beginning with what the user's cache knows of it.
class TunedAttention {
 public:
  /// wanted: false for plans by rule.
  TunedAttention(at::Device device, bool wanted);

  AttentionTuner* tuner() { return tuner_ ? &*tuner_ : nullptr; }  // null: not wanted, or no GPU
  /// Writes what was measured to the user's cache.
  void save() const;

 private:
  std::optional<std::filesystem::path> path_;
  TunedGpu gpu_;
  std::optional<AttentionTuner> tuner_;
};

}  // namespace vggt
