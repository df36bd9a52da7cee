#pragma once
#include <ATen/ATen.h>

#include <memory>

#include "model/config.h"
#include "model/frame_provider.h"
#include "model/memory_plan.h"
#include "model/model_options.h"
#include "model/observer.h"
#include "model/overlap.h"
#include "model/predictions.h"
#include "model/state/binder.h"

namespace vggt {

/// How a run went.
struct RunReport {
  MemoryPlan plan;             // the last one, where memory ran out on the way
  Overlap weights, attention;  // of what was streamed from the host beside the computation
};

/// The network (VGGT, arXiv 2503.11651), for inference.
class Vggt {
 public:
  /// Checks every name and shape but those of a depth refiner, then loads the tensors that the heads need.
  /// Throws std::invalid_argument: tensors missing, misshapen or left over; a head that the source lacks; a
  /// precision that the device does not have.
  Vggt(const Config& config, const TensorSource& source, const ModelOptions& options);
  ~Vggt();
  Vggt(Vggt&&) noexcept;

  /// Runs the network on all frames. query_points: [Q,2] x, y in network pixels of frame 0, or undefined.
  /// Two threads may run one model at once. Throws std::invalid_argument for sizes that the model cannot take
  /// (a frame too small for the tracker), c10::Error for a TF32 setting that is not the precision's.
  RunReport run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                const Observer& observer = {}) const;
  /// The same with other options than the model's for this run.
  RunReport run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                const Observer& observer, const RunOptions& options) const;

  const Config& config() const;

 private:
  struct Network;
  class Run;
  friend TensorShapes expected_tensors(const Config& config, const Heads& heads);
  std::unique_ptr<Network> network_;
};

/// Names and shapes of every tensor of a model with these heads.
TensorShapes expected_tensors(const Config& config, const Heads& heads);

/// What plan_memory() has to know of a model; the sizes of frames and the number of query points are left to
/// set. Asks a GPU for its properties and throws c10::Error where it cannot be asked.
MemoryRequest memory_request(const Config& config, const ModelOptions& options);

/// Throws std::invalid_argument for frames that are too small for the tracker, where it has query points.
void check_tracker_takes(const MemoryRequest& request);

/// World points of a depth map: depth [F,H,W], extrinsic [F,3,4], intrinsic [F,3,3] -> [F,H,W,3].
/// Integer pixel coordinates, as the reference.
at::Tensor unproject(const at::Tensor& depth, const at::Tensor& extrinsic, const at::Tensor& intrinsic);

}  // namespace vggt
