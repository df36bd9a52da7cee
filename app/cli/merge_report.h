#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/eval/prediction_difference.h"
#include "model/merge_options.h"

namespace vggt {

struct StageSeconds {
  std::string stage;
  double exact = 0, merged = 0;
};

/// What `bench merge` found.
struct MergeReport {
  std::string machine, weights, precision;
  int64_t frames = 0, width = 0, height = 0;  // network pixels
  MergeOptions merge;
  int64_t blocks = 0, merging_blocks = 0;  // global blocks, and those of them that merge
  int64_t tokens = 0, rows = 0;            // that exact attention and a merging block attend to, at most
  std::string nothing_merges;              // why; empty: something does
  std::vector<StageSeconds> stages;        // of the network, in their order
  PredictionDifference difference;         // of the merged run from the exact one
};

/// The report as a table.
std::string to_text(const MergeReport& report);
/// The same numbers as JSON; null for what is not finite.
std::string to_json(const MergeReport& report);

}  // namespace vggt
