#pragma once
// Plans chosen by measurement: by which key they are kept, and how they are chosen. Without torch and GPUs.

#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// What calls that share a plan have in common: sizes are those of their class, the head dim is that of the
/// kernel.
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

/// Milliseconds that one call takes at least: its 4·rows·Nq·Nk·D operations at a rate that no kernel of the
/// variant reaches on this device. 0 for sdpa. Pure.
double least_milliseconds(AttentionVariant variant, const CudaSizes& sizes, const CudaDevice& device);

/// The fastest of the plans, of which there is at least one. `time` runs a plan once and returns its
/// milliseconds, infinity where it cannot run. The first run of each, which loads its kernel, is not compared
/// and counts as a later run; where it takes three budgets, nothing more is measured. A plan is not begun
/// where its runs would exceed the budget by the first plan's time. Nothing is returned, and nothing run,
/// where the runs of two plans, the fewest that can be compared, exceed it at `least_ms` each.
std::optional<CudaPlan> fastest_plan(const std::vector<CudaPlan>& plans,
                                     const std::function<double(const CudaPlan&)>& time, double least_ms,
                                     const TuneBudget& budget = {});

/// The plans measured for one GPU, for any number of threads. attention() adds to it where its options name
/// it.
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

}  // namespace vggt
