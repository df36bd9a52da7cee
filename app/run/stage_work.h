#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/run/run_plan.h"
#include "io/frames/frames.h"
#include "model/cost_plan.h"
#include "model/memory_plan.h"

// What a run has to do beside its network, as far as a plan tells: no more, so that a plan's prediction and
// what a run learns count alike.
namespace vggt {

/// One stage of a report: its time is proportional to `units`, for runs whose `kind` is the same.
struct StageWork {
  std::string stage;
  std::string kind;
  double units = 0;
  bool usual = true;       // no option that may make it much longer, or shorter
  bool comparable = true;  // with others of its kind
  /// Only runs of up to so many times the units, or as many times fewer, tell of it; 0: all do.
  double alike = 0;
  /// The word of its source, where others' runs tell only what is likely.
  std::optional<std::string> source = {};
  /// Seconds a unit of some usual works like it on two cores of a Zen 5, by which a first one is likely to
  /// go.
  std::vector<double> elsewhere = {};
};

/// What becomes frames: the kind of its files, such as "jpg", the pixels that are decoded, those of the gray
/// copies, where there are any, and a word by which the source is known again, of the bytes of its first
/// frame's file; empty where there is no such file.
struct FrameSource {
  std::string kind;
  double pixels = 0, gray = 0;
  std::string word = {};
};

/// Of frames that were loaded or sized with these options.
FrameSource source_of(const FrameOptions& options, const FrameSet& frames);

/// The stages that a run's report names, but for the network's. request: with the frames' number and size.
std::vector<StageWork> stage_works(const RunPlan& plan, const MemoryRequest& request,
                                   const FrameSource& source);

/// What these stages of the network take more than their rates tell: on a GPU what a process does once, such
/// as loading kernels, on a CPU a share of the seconds by the rates, which may be less than nothing: rates
/// that a busy machine gave are too slow. stages: with those seconds. limited: in a run whose memory is, if
/// the plan's is; else as in one whose memory is not.
std::vector<StageWork> more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                                       const std::vector<StageSeconds>& stages, bool limited = true);

/// The same stages where no rates are known: runs of about as many frames of this size tell of them.
std::vector<StageWork> network_works(const RunPlan& plan, const MemoryRequest& request,
                                     const std::vector<std::string>& stages);

}  // namespace vggt
