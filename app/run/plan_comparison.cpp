#include "app/run/plan_comparison.h"

#include <optional>

#include "app/run/merging.h"
#include "app/run/rank_run.h"
#include "app/run/rates_cache.h"
#include "app/run/stage_history.h"

namespace vggt {

PlanComparison compare_ways(const RunPlan& plan, MemoryRequest request, const FrameSource& source,
                            const Events& events) {
  std::optional<Rates> rates = rates_for(plan.model, plan.model.autotune, events);
  add_scratch_rates(request, plan.model.autotune, rates);
  const MergeChoice merging =
      choose_merging(request, plan.given.merge, rates,
                     [&](const auto& way, auto& seconds) { add_more_than_rates(plan, way, seconds); });
  if (!merging.note.empty()) events.info(merging.note);
  request.merge = merging.merge;
  PlanComparison plans = compare_plans(request, merge_options(plan.given), rates);
  const std::vector<StageWork> works = stage_works(plan, request, source);
  plans.beside = predict_beside(plan, works, rates.has_value());
  for (NetworkPlan* one : {&plans.plan, &plans.other}) add_more_than_rates(plan, one->request, one->seconds);
  plans.nccl_bytes = nccl_bytes(plan);
  return plans;
}

}  // namespace vggt
