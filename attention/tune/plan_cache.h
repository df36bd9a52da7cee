#pragma once
// Measured plans as the text of a cache. Without torch, files and GPUs: app/run/attention_cache.h reads and
// writes the file.

#include <string>

#include "attention/tune/autotune.h"

namespace vggt {

/// The GPU and the versions that measured plans hold for.
struct TunedGpu {
  std::string name;
  int multiprocessors = 0;
  int driver = 0, runtime = 0;  // versions of CUDA, as CUDA counts them
  std::string program;          // version of the program
  std::string libtorch;         // version of LibTorch, whose kernels were measured too
  bool operator==(const TunedGpu&) const = default;
};

/// This GPU's plans in a cache's text; none where the text is no cache of this form, or has other versions.
TunedPlans plans_in_cache(const std::string& cache, const TunedGpu& gpu);
/// The cache's text with these plans put in. The plans for other GPUs stay, those for this GPU under other
/// versions go. A text that is no cache of this form is begun anew.
std::string cache_with_plans(const std::string& cache, const TunedGpu& gpu, const TunedPlans& plans);

}  // namespace vggt
