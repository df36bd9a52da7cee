#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/cost_plan.h"
#include "model/memory_plan.h"
#include "model/rates.h"

namespace vggt {

using CorrectSeconds = std::function<void(const MemoryRequest& request, std::vector<StageSeconds>& seconds)>;

struct MergeChoice {
  std::optional<MergeOptions> merge;
  std::string note;  // one line for a person, where the choice was the program's; else empty
};

/// Whether a run merges tokens. request: of a network with sizes; its `merge` holds how it would. wish: auto,
/// on or off. With auto it merges where exact attention does not fit the budget and merged attention does,
/// and where merging saves at least kMergeSeconds and half the time; never for the time where the rates are
/// not known, or of fewer than kFewestMerged frames. correct: adds to the seconds by rates what is known
/// beside them.
MergeChoice choose_merging(const MemoryRequest& request, const std::string& wish,
                           const std::optional<Rates>& rates, const CorrectSeconds& correct = {});
inline constexpr double kMergeSeconds = 20;
inline constexpr int64_t kFewestMerged = 32;

}  // namespace vggt
