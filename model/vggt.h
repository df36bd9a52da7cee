#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>

#include "attention/variant.h"
#include "model/config.h"
#include "model/state/binder.h"
#include "model/observer.h"

namespace vggt {

class AttentionTuner;  // attention/tune/autotune.h

enum class Precision { fp64, fp32, tf32, bf16, fp16 };

struct ModelOptions {
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  Heads heads;  // which heads to load and run
  int64_t frames_per_chunk =
      0;  // frames that patch embedding and dense heads take at once; 0: chosen by size
  /// Of frame, global, DINOv2 and camera attention. Another than automatic: on CUDA only; half does not
  /// concern the camera head, which runs in fp32.
  AttentionVariant attention = AttentionVariant::automatic;
  AttentionTuner* tuner = nullptr;  // as in AttentionOptions; it must outlive the model
};

/// Throws std::invalid_argument for a precision or an attention that the device, or a model of this
/// architecture, cannot have. Loads nothing.
void check_model_options(const Config& config, const ModelOptions& options);

/// Cameras of all frames, on the CPU in fp32 (fp64 in a float64 run).
struct CameraPrediction {
  at::Tensor pose_enc;   // [S,9]: translation, quaternion xyzw, field of view (vertical, horizontal), radians
  at::Tensor extrinsic;  // [S,3,4] camera from world, OpenCV axes
  at::Tensor intrinsic;  // [S,3,3] network pixels
};

/// Dense output of the frames [first_frame, first_frame + F), on the CPU in fp32. A head fills its own
/// fields.
struct DensePrediction {
  int64_t first_frame = 0;
  at::Tensor depth, depth_conf;                // [F,H,W]
  at::Tensor world_points, world_points_conf;  // [F,H,W,3], [F,H,W]
};

/// Tracks of Q query points through all frames, on the CPU in fp32.
struct TrackPrediction {
  at::Tensor track;                  // [S,Q,2] x, y in network pixels
  at::Tensor track_vis, track_conf;  // [S,Q] in (0,1)
};

/// Who takes the results, each called as soon as they exist: cameras once, dense heads chunk after chunk.
struct Sink {
  std::function<void(const CameraPrediction&)> cameras;
  std::function<void(const DensePrediction&)> depth;
  std::function<void(const DensePrediction&)> points;
  std::function<void(const TrackPrediction&)> tracks;
};

/// Hands out frames on the CPU: [count,3,H,W], uint8 or floating point in [0,1] (uint8 is divided by 255).
struct FrameProvider {
  int64_t frames = 0, height = 0, width = 0;
  std::function<at::Tensor(int64_t first, int64_t count)> get;
};

/// The network (VGGT, arXiv 2503.11651), for inference.
class Vggt {
 public:
  /// Checks every name and shape, then loads the tensors that the heads need.
  /// Throws std::invalid_argument: tensors missing, misshapen or left over; a head that the source lacks; a
  /// precision that the device does not have.
  Vggt(const Config& config, const TensorSource& source, const ModelOptions& options);
  ~Vggt();
  Vggt(Vggt&&) noexcept;

  /// Runs the network on all frames. query_points: [Q,2] x, y in network pixels of frame 0, or undefined.
  /// Throws std::invalid_argument for sizes that the model cannot take (a frame too small for the tracker).
  void run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
           const Observer& observer = {});

  const Config& config() const;

 private:
  struct Network;
  friend TensorShapes expected_tensors(const Config& config, const Heads& heads);
  std::unique_ptr<Network> network_;
};

/// Names and shapes of every tensor of a model with these heads.
TensorShapes expected_tensors(const Config& config, const Heads& heads);

/// World points of a depth map: depth [F,H,W], extrinsic [F,3,4], intrinsic [F,3,3] -> [F,H,W,3].
/// Integer pixel coordinates, as the reference.
at::Tensor unproject(const at::Tensor& depth, const at::Tensor& extrinsic, const at::Tensor& intrinsic);

}  // namespace vggt
