#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/eval/cloud_error.h"
#include "app/eval/depth_error.h"
#include "app/eval/fov_error.h"
#include "app/eval/trajectory_error.h"

namespace vggt {

/// How many frames were compared, and which were not.
struct FrameCount {
  int matched = 0, result = 0, truth = 0;
  std::vector<std::string> only_result, only_truth;  // with the scene in front where there are several
};

/// Everything that was compared; means over scenes.
struct EvalReport {
  int scenes = 1;
  std::optional<TrajectoryError> poses;
  FrameCount pose_frames;
  std::optional<FovError> fov;  // of the matched frames whose field of view both sides tell
  std::optional<DepthError> depth;
  FrameCount depth_frames;
  std::optional<CloudError> cloud;
  bool cloud_aligned = false;         // by the cameras
  std::vector<std::string> left_out;  // what only one side holds
};

/// The report as a table.
std::string to_text(const EvalReport& report);
/// The same numbers as JSON: those of the poses at the top, `depth` and `cloud` as objects; null for what is
/// not finite.
std::string to_json(const EvalReport& report);

}  // namespace vggt
