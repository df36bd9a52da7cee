#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attention/tune/plan_cache.h"

namespace vggt {

/// vggt-recon/attention.json in the user's folder for caches; nothing where the environment names none.
std::optional<std::filesystem::path> attention_cache_path();

/// The plans that the file has for this GPU; none where it cannot be read or is no such file.
TunedPlans load_tuned_plans(const std::filesystem::path& path, const TunedGpu& gpu);

/// Adds plans to the file, as write_cache().
void save_tuned_plans(const std::filesystem::path& path, const TunedGpu& gpu, const TunedPlans& plans);

/// The tuner of one run: it starts with the plans of the user's cache, and save() adds what it measured.
class TunedAttention {
 public:
  /// wanted: false with --no-autotune, where the tuner measures nothing and has no cache.
  TunedAttention(at::Device device, bool wanted);

  AttentionTuner* tuner() { return tuner_ ? &*tuner_ : nullptr; }  // null on the CPU
  /// What computed attention on the GPU so far, and which of LibTorch's kernels it does not have, in words.
  std::vector<std::string> kernels() const;
  /// Whether calls were measured, of sizes that the cache did not know.
  bool measured() const { return tuner_ && tuner_->changed(); }
  /// Writes what was measured to the user's cache.
  void save() const;

 private:
  std::optional<std::filesystem::path> path_;
  TunedGpu gpu_;
  std::optional<AttentionTuner> tuner_;
};

}  // namespace vggt
