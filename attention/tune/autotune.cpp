#include "attention/tune/autotune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention/cuda/fused_kernel.h"

namespace vggt {

int64_t size_class(int64_t n) {
  constexpr int kBits = 4;  // of a size are kept: the leading one and three more
  if (n <= 0) return 0;
  const int dropped = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) - kBits);
  return n >> dropped << dropped;
}

TuneKey tune_key(AttentionVariant variant, CudaElement type, const CudaSizes& sizes) {
  return {variant,
          type,
          kernel_dim(sizes.dim),
          size_class(sizes.rows),
          size_class(sizes.queries),
          size_class(sizes.keys)};
}

double least_milliseconds(AttentionVariant variant, const CudaSizes& sizes, const CudaDevice& device) {
  // TFLOP/s of a multiprocessor. Measured on an H200 (132 of them): strict .36, split 1.9, half and
  // turbo 5.2; without Hopper's instructions split .66, half 1.6. An A100's tensor cores have 2.9 at their
  // peak.
  const bool hopper = device.wgmma;
  double rate = 0;
  if (variant == AttentionVariant::strict) rate = 0.6;
  if (variant == AttentionVariant::split) rate = hopper ? 2 : 1;
  if (variant == AttentionVariant::turbo || variant == AttentionVariant::half) rate = hopper ? 6 : 3;
  if (rate == 0) return 0;
  const double operations = 4 * static_cast<double>(sizes.rows) * static_cast<double>(sizes.queries) *
                            static_cast<double>(sizes.keys) * static_cast<double>(sizes.dim);
  return operations / (rate * 1e9 * std::max(1, device.multiprocessors));
}

std::optional<CudaPlan> fastest_plan(const std::vector<CudaPlan>& plans,
                                     const std::function<double(const CudaPlan&)>& time, double least_ms,
                                     const TuneBudget& budget) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kMostLoading = 3;  // budgets: then the call itself may take long, which one more tells
  if (2 * least_ms * (1 + budget.runs) > budget.milliseconds) return std::nullopt;
  double spent = 0, first_time = kNever, best_time = kNever;
  const CudaPlan* best = nullptr;
  for (const CudaPlan& plan : plans) {
    const double expected = best ? first_time * (1 + budget.runs) : 0;
    if (!(spent + expected <= budget.milliseconds)) break;
    double loading = time(plan);
    if (!std::isfinite(loading)) continue;
    if (loading > kMostLoading * budget.milliseconds) {
      loading = time(plan);
      if (loading > budget.milliseconds) break;
    }
    double fastest = kNever;
    for (int run = 0; run < budget.runs && (run == 0 || spent + fastest <= budget.milliseconds); ++run) {
      const double once = time(plan);
      spent += once;
      fastest = std::min(fastest, once);
    }
    spent += std::min(loading, fastest);  // the rest of loading happens only once
    if (!best) {
      best = &plan;
      first_time = best_time = fastest;
    } else if (fastest < best_time && fastest < first_time * (1 - budget.gain)) {
      best_time = fastest;
      best = &plan;
    }
  }
  return best ? *best : plans.front();
}

double affordable_share(std::size_t plans, double least_ms, const TuneBudget& budget) {
  constexpr double kSlowest = 3;  // times the least: GPUs for games have half the rate with sums in fp32
  const double whole = kSlowest * static_cast<double>(plans) * (1 + budget.runs) * least_ms;
  return whole > budget.milliseconds ? budget.milliseconds / whole : 1;
}

CudaSizes compared_part(const CudaSizes& sizes, double share, const CudaDevice& device) {
  // Rows of queries of a multiprocessor: whole waves of tiles of 128 and of 192 queries, up to three blocks
  // at a time.
  constexpr int64_t kRows = 768;
  constexpr int64_t kFewHeads = 8, kFewKeys = 1024;
  if (share >= 1) return sizes;
  CudaSizes part = sizes;
  const int64_t filling = kRows * std::max(1, device.multiprocessors);
  if (sizes.rows * sizes.queries > filling) {
    part.rows = (filling + sizes.queries - 1) / sizes.queries;
    if (part.rows <= kFewHeads) part.queries = (filling + part.rows - 1) / part.rows;
  }
  const double kept = static_cast<double>(part.rows) * static_cast<double>(part.queries) /
                      (static_cast<double>(sizes.rows) * static_cast<double>(sizes.queries));
  const auto keys = static_cast<int64_t>(share / kept * static_cast<double>(sizes.keys));
  part.keys = std::clamp(keys, std::min(sizes.keys, kFewKeys), sizes.keys);
  return part;
}

AttentionTuner::AttentionTuner(int device, TunedPlans plans, bool measures)
    : device_(device), measures_(measures), plans_(std::move(plans)) {}

std::optional<CudaPlan> AttentionTuner::find(const TuneKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? std::nullopt : std::optional(found->second);
}

void AttentionTuner::keep(const TuneKey& key, const CudaPlan& plan) {
  const std::lock_guard lock(mutex_);
  plans_[key] = plan;
  changed_ = true;
}

TunedPlans AttentionTuner::plans() const {
  const std::lock_guard lock(mutex_);
  return plans_;
}

bool AttentionTuner::changed() const {
  const std::lock_guard lock(mutex_);
  return changed_;
}

void AttentionTuner::note_run(AttentionVariant variant, const CudaPlan& plan) {
  const std::pair run(variant, CudaPlan{plan.kernel, plan.tile, 1});
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(runs_, run) == runs_.end()) runs_.push_back(run);
}

void AttentionTuner::note_missing(CudaKernel fused) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(missing_, fused) == missing_.end()) missing_.push_back(fused);
}

std::vector<std::string> AttentionTuner::runs() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [variant, plan] : runs_) names.push_back(plan_name(variant, plan));
  return names;
}

std::vector<std::string> AttentionTuner::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (CudaKernel fused : missing_)
    names.push_back(fused_name(fused) + ": not offered by this build or device");
  return names;
}

}  // namespace vggt
