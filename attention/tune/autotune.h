#pragma once
// Plans chosen by measurement: what they are kept by, how they are chosen, and their text in a cache. Without
// torch, files and GPUs.

#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// Calls that share a plan: sizes are those of their class, the head dim is that of the kernel.
struct TuneKey {
  AttentionVariant variant = AttentionVariant::automatic;
  CudaElement type = CudaElement::fp32;
  int64_t dim = 0, rows = 0, queries = 0, keys = 0;
  auto operator<=>(const TuneKey&) const = default;
};

/// The smallest size of n's class. Up to 16 every size is a class of its own, from there on each octave has
/// eight.
int64_t size_class(int64_t n);
TuneKey tune_key(AttentionVariant variant, CudaElement type, const CudaSizes& sizes);

using TunedPlans = std::map<TuneKey, CudaPlan>;

/// What may be spent on a class of sizes. A plan has to be faster than the first one by `gain` of its time.
struct TuneBudget {
  double milliseconds = 100;
  int runs = 3;
  double gain = 0.03;
};

/// The fastest of the plans, of which there is at least one. `time` runs a plan once and returns its
/// milliseconds, infinity where it cannot run. The first run of each, which loads its kernel, is not
/// compared, and takes of the budget what a later run does; where it takes three budgets, nothing more is
/// measured. A plan is not begun where as many runs as it takes would no longer fit.
CudaPlan fastest_plan(const std::vector<CudaPlan>& plans, const std::function<double(const CudaPlan&)>& time,
                      const TuneBudget& budget = {});

/// The plans measured for one GPU, for any number of threads. attention() fills it where it is asked to.
class AttentionTuner {
 public:
  /// device: the index of the GPU, whose calls alone are concerned. plans: those known from before.
  explicit AttentionTuner(int device, TunedPlans plans = {});

  int device() const { return device_; }
  std::optional<CudaPlan> find(const TuneKey& key) const;
  void keep(const TuneKey& key, const CudaPlan& plan);
  /// All plans, and whether any was added.
  TunedPlans plans() const;
  bool changed() const;

 private:
  const int device_;
  mutable std::mutex mutex_;
  TunedPlans plans_;
  bool changed_ = false;
};

/// What measured plans hold for.
struct TunedGpu {
  std::string name;
  int multiprocessors = 0;
  int driver = 0, runtime = 0;  // versions of CUDA, as CUDA counts them
  std::string program;          // version of the program
  bool operator==(const TunedGpu&) const = default;
};

/// This GPU's plans in a cache's text; none where the text is no cache, or knows the GPU by other versions.
TunedPlans plans_in_cache(const std::string& cache, const TunedGpu& gpu);
/// The cache's text with these plans put in. What it has for other GPUs stays; what it has for this one under
/// other versions goes; a text that is no cache is begun anew.
std::string cache_with_plans(const std::string& cache, const TunedGpu& gpu, const TunedPlans& plans);

}  // namespace vggt
