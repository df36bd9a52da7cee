#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "app/batch/batch_plan.h"
#include "app/batch/manifest.h"
#include "app/events/events.h"

namespace vggt {

/// What became of a batch.
struct BatchResult {
  SceneRecords records;                     // of all scenes that the manifest knows
  int64_t ran = 0;                          // scenes that this process has done, well or not
  bool stopped = false;                     // it was asked to stop before the end
  std::vector<std::string> done_otherwise;  // scenes that other processes did with other options meanwhile
  std::exception_ptr failure;               // of the machine, which ended it before the end; null: none
};

/// Does the scenes of the plan's share that are to be done, each in its folder of the results, and tells the
/// manifest of each. Every device has its model, loaded with the first scene that needs it, `jobs` threads
/// that run scenes and one that claims and decodes the next. A scene that cannot be done does not keep the
/// others from being done; a machine that fails does. Returns when every scene of the share is done, by this
/// process or another. The events are called from several threads, one at a time. Throws std::system_error
/// where the results' folder cannot be written.
BatchResult run_batch(const BatchPlan& plan, const Events& events);

}  // namespace vggt
