#include "app/run/merging.h"

#include <cstdio>

#include "model/cost_plan.h"

namespace vggt {

MergeChoice choose_merging(const MemoryRequest& request, const std::string& wish,
                           const std::optional<Rates>& rates) {
  if (wish == "off") return {};
  if (!request.merge) return {};
  if (wish == "on") {
    const int64_t patch = request.config.patch_size;
    const MergeCounts counts = merge_counts(request.frames, request.height / patch, request.width / patch,
                                            request.config.special_tokens(), *request.merge);
    if (counts.most_merged > 0 && counts.tokens > counts.destinations) return {request.merge, ""};
    return {std::nullopt, "merge: these frames have no tokens to merge, attention is exact"};
  }
  MemoryRequest exact = request;
  exact.merge = std::nullopt;
  const MemoryPlan plan = plan_memory(exact), merged_plan = plan_memory(request);
  if (!merged_plan.fits) return {};
  if (!plan.fits) return {request.merge, "merging tokens: exact attention does not fit into the memory"};
  if (!rates) return {};
  const double seconds = total_seconds(predict_seconds(exact, plan, *rates)),
               merged = total_seconds(predict_seconds(request, merged_plan, *rates));
  if (seconds - merged < kMergeSeconds || merged > seconds / 2) return {};
  char text[200];
  std::snprintf(text, sizeof text,
                "merging tokens: about %.0f s, where exact attention (--merge off) would take %.0f s; "
                "`vggt-recon bench merge` shows the difference",
                merged, seconds);
  return {request.merge, text};
}

}  // namespace vggt
