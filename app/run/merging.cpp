#include "app/run/merging.h"

#include <cstdio>

namespace vggt {

MergeChoice choose_merging(const MemoryRequest& request, const std::string& wish,
                           const std::optional<Rates>& rates, const CorrectSeconds& correct) {
  if (wish == "off") return {};
  if (!request.merge) return {};
  if (wish == "on") {
    const int64_t patch = request.config.patch_size;
    const MergeCounts counts = merge_counts(request.frames, request.height / patch, request.width / patch,
                                            request.config.special_tokens(), *request.merge);
    if (request.merge->start >= request.config.depth)
      return {std::nullopt, "merge: the model has no block " + std::to_string(request.merge->start) +
                                " to begin at, attention is exact"};
    if (counts.most_merged > 0 && counts.tokens > counts.destinations) return {request.merge, ""};
    return {std::nullopt, "merge: these frames have no tokens to merge, attention is exact"};
  }
  MemoryRequest exact = request;
  exact.merge = std::nullopt;
  const MemoryPlan plan = plan_memory(exact), merged_plan = plan_memory(request);
  if (!merged_plan.fits) return {};
  if (!plan.fits) return {request.merge, "merging tokens: exact attention does not fit into the memory"};
  if (!rates || request.frames < kFewestMerged) return {};
  const auto seconds_of = [&](const MemoryRequest& way, const MemoryPlan& memory) {
    std::vector<StageSeconds> stages = predict_seconds(way, memory, *rates);
    if (correct) correct(way, stages);
    return total_seconds(stages);
  };
  const double seconds = seconds_of(exact, plan), merged = seconds_of(request, merged_plan);
  if (seconds - merged < kMergeSeconds || merged > seconds / 2) return {};
  char text[200];
  std::snprintf(text, sizeof text,
                "merging tokens: about %.0f s, where exact attention (--merge off) would take %.0f s; "
                "`vggt-recon bench merge` shows the difference",
                merged, seconds);
  return {request.merge, text};
}

}  // namespace vggt
