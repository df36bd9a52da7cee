#include "attention/tune/autotune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vggt {

int64_t size_class(int64_t n) {
  constexpr int kBits = 4;  // kept of a size: the leading one and three more
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

CudaPlan fastest_plan(const std::vector<CudaPlan>& plans, const std::function<double(const CudaPlan&)>& time,
                      const TuneBudget& budget) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kMostLoading = 3;  // of the budget: then the call itself may take long
  double spent = 0, first_time = kNever, best_time = kNever;
  const CudaPlan* best = &plans.front();
  for (const CudaPlan& plan : plans) {
    const bool is_first = &plan == &plans.front();
    const double expected = is_first ? 0 : first_time * (1 + budget.runs);
    if (!(spent + expected <= budget.milliseconds)) break;
    const double loading = time(plan);
    if (!std::isfinite(loading)) continue;
    if (loading > kMostLoading * budget.milliseconds) break;
    double fastest = kNever;
    for (int run = 0; run < budget.runs && (run == 0 || spent + fastest <= budget.milliseconds); ++run) {
      const double once = time(plan);
      spent += once;
      fastest = std::min(fastest, once);
    }
    spent += std::min(loading, fastest);  // what loading took besides happens once
    if (is_first) {
      first_time = best_time = fastest;
    } else if (fastest < best_time && fastest < first_time * (1 - budget.gain)) {
      best_time = fastest;
      best = &plan;
    }
  }
  return *best;
}

AttentionTuner::AttentionTuner(int device, TunedPlans plans) : device_(device), plans_(std::move(plans)) {}

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

}  // namespace vggt
