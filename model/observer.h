#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <string>

namespace vggt {

/// What a stage of the model reports: progress (done of total, from 0 to total), a named tensor, or a
/// warning. Stages: "patch_embed", "aggregator", "camera_head", "depth_head", "point_head", "track_head".
struct StageReport {
  std::string stage;
  int64_t done = 0, total = 0;
  std::string name;          // of the tensor, such as "frame_block.3"; empty for progress
  at::Tensor tensor;         // undefined for progress; may be overwritten after the call returns
  std::string warning = {};  // what a person should know, one line; total is 0 then
};

/// Sees every stage: parity tests, timing, progress. Stops the run by throwing.
using Observer = std::function<void(const StageReport&)>;

inline void report_progress(const Observer& observer, const std::string& stage, int64_t done, int64_t total) {
  if (observer) observer({stage, done, total, {}, {}});
}

inline void report_tensor(const Observer& observer, const std::string& stage, const std::string& name,
                          const at::Tensor& tensor) {
  if (observer) observer({stage, 0, 0, name, tensor});
}

inline void report_warning(const Observer& observer, const std::string& stage, const std::string& warning) {
  if (observer) observer({stage, 0, 0, {}, {}, warning});
}

}  // namespace vggt
