#pragma once
// Plans chosen by measurement: by which key they are kept, and how they are chosen. Without torch and GPUs.

#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/cuda/cuda_plan.h"

namespace vggt {

/// What calls that share a plan have in common: sizes are those of their class, the head dim is that of the
/// kernel.
struct TuneKey {
  AttentionVariant variant = AttentionVariant::automatic;
  CudaElement type = CudaElement::fp32;
  int64_t dim = 0, rows = 0, queries = 0, keys = 0;
  bool libtorch =
      false;  // the plan was measured beside LibTorch's kernels, for a part of the call where it is long
  auto operator<=>(const TuneKey&) const = default;
};

/// The smallest size of n's class. Up to 16 every size is a class of its own, from there on each octave has
/// eight.
int64_t size_class(int64_t n);
TuneKey tune_key(AttentionVariant variant, CudaElement type, const CudaSizes& sizes);

using TunedPlans = std::map<TuneKey, CudaPlan>;

/// What may be spent on a class of sizes. A plan has to be faster than the first by `gain` of its time.
struct TuneBudget {
  double milliseconds = 100;
  int runs = 3;
  double gain = 0.03;
};

/// Milliseconds that one call takes at least: its 4·rows·Nq·Nk·D operations at a rate that no kernel of the
/// variant reaches on this device. 0 for sdpa. Pure.
double least_milliseconds(AttentionVariant variant, const CudaSizes& sizes, const CudaDevice& device);

/// The fastest of the plans, of which there is at least one; the first that can run unless another gains on
/// it. `time` runs a plan once and returns its milliseconds, infinity where it cannot run. The first run of
/// each, which loads its kernel, is not compared and counts as a later run; where it takes three budgets, and
/// the second the whole budget, nothing more is measured. A plan is not begun where its runs would exceed the
/// budget by the first plan's time. Nothing is returned, and nothing run, where the runs of two plans, the
/// fewest that can be compared, exceed it at `least_ms` each.
std::optional<CudaPlan> fastest_plan(const std::vector<CudaPlan>& plans,
                                     const std::function<double(const CudaPlan&)>& time, double least_ms,
                                     const TuneBudget& budget = {});

/// The share of a call's operations that `plans` plans may each run 1 + budget.runs times within the budget,
/// where they take three times as long as the least at most; 1 where that is the whole call.
double affordable_share(std::size_t plans, double least_ms, const TuneBudget& budget = {});

/// The part of a call with this share of its operations on which kernels are compared: as many queries as
/// fill the device, of as few heads as that takes, since a long call is worked off in this order, and as many
/// keys as the share leaves. Long calls of one kind have nearly the same part, whatever their length. All
/// sizes for a share of 1. Pure.
CudaSizes compared_part(const CudaSizes& sizes, double share, const CudaDevice& device);

/// The plans measured for one GPU, and what computed its calls, for any number of threads. attention() adds
/// to it where its options name it.
class AttentionTuner {
 public:
  /// device: the index of the GPU, whose calls alone are concerned. plans: those known from before. measures:
  /// where false, plans are by rule alone, and only what computes calls is noted.
  explicit AttentionTuner(int device, TunedPlans plans = {}, bool measures = true);

  int device() const { return device_; }
  bool measures() const { return measures_; }
  std::optional<CudaPlan> find(const TuneKey& key) const;
  void keep(const TuneKey& key, const CudaPlan& plan);
  /// All plans, and whether any was added.
  TunedPlans plans() const;
  bool changed() const;

  /// Notes that calls of this variant ran by this plan.
  void note_run(AttentionVariant variant, const CudaPlan& plan);
  /// Notes that LibTorch's kernel is not offered for such calls, by its build or by the device.
  void note_missing(CudaKernel fused);
  /// What was noted, each once: such as "half: own, 128x64", "cuDNN (LibTorch): not offered by this build or
  /// device".
  std::vector<std::string> runs() const;
  std::vector<std::string> missing() const;

 private:
  const int device_;
  const bool measures_;
  mutable std::mutex mutex_;
  TunedPlans plans_;
  bool changed_ = false;
  std::vector<std::pair<AttentionVariant, CudaPlan>> runs_;  // without their partitions
  std::vector<CudaKernel> missing_;
};

}  // namespace vggt
