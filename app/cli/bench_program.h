#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "app/events/events.h"
#include "attention/bench/pace.h"
#include "attention/bench/rows.h"
#include "model/schedule.h"

namespace vggt {

/// Reconstructs generated frames as `vggt-recon --merge off FRAMES` does, in a temporary folder which it
/// removes: once, and up to three times in all where the pace allows; the median run counts, the faster of
/// two. Beside it, in turns, the same program with LibTorch's network (TorchNetwork) in place of ours, which
/// is left out where it has no time, or `budget` no room. weights: a file, or empty for those that come with
/// the program. Shows a row for each stage, with both sides' seconds, and one for the total; returns what the
/// run was. No kernel is timed to choose among them. Throws as reconstruct().
nlohmann::ordered_json bench_program(const std::string& device, const std::string& weights, Pace pace,
                                     const MemoryBudget& budget, const Events& events, const ShowRow& show);

}  // namespace vggt
