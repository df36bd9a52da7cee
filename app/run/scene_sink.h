#pragma once
#include <Eigen/Geometry>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "app/run/stage_times.h"
#include "app/run/task_queue.h"
#include "app/scene/dense_maps.h"
#include "app/scene/scene_builder.h"
#include "io/files/host_storage.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "io/scene/prediction_writer.h"
#include "io/scene/tracks.h"
#include "model/predictions.h"
#include "model/state/binder.h"

namespace vggt {

/// Takes what the network gives: hands it to the scene builder and to the predictions file, on a thread of
/// its own, and keeps the cameras. What that thread throws comes out of a later call. What the constructor is
/// given by reference must outlive the sink.
class SceneSink {
 public:
  SceneSink(const RunPlan& plan, const FrameSet& frames, const std::shared_ptr<HostSpace>& space,
            StageTimes& times, const Events& events);

  /// Starts the predictions file, with the images: what stands at place() in the end, and will be `path`.
  void save_predictions(const std::filesystem::path& path, std::function<std::filesystem::path()> place);
  /// What Vggt::run() calls.
  Sink sink();

  /// After the network, where the plan says so: fits cameras and depth to the images, and hands both on.
  /// Returns what became of them, such as "adjusted to 9446 matches in 111 pairs of frames". room: bytes that
  /// matches and their equations may take, and then the refinement.
  std::string adjust(int64_t room);

  /// After the network and the adjustment: moves the world, that is cameras, tracks, depth and points. The
  /// predictions file stays as it is.
  void move(const Eigen::Affine3d& similarity);

  /// The cameras, adjusted if an adjustment ran; none without the camera head.
  const std::vector<Camera>& cameras() const { return cameras_; }
  /// Whether an adjustment changed cameras and depth.
  bool is_adjusted() const { return is_adjusted_; }
  /// Of an adjusted scene, those whose cameras few matches hold.
  const std::vector<int>& weak_frames() const { return weak_frames_; }
  /// Points of an adjusted scene with the frames that see them.
  std::vector<Track> take_tracks() { return std::move(tracks_); }
  /// After the network and the adjustment: the builder of the scene, if one is to be made.
  SceneBuilder* builder();
  /// After builder(): depth and confidence of each frame, where the cloud or an export is made of them.
  const DenseMaps* depth_maps();
  void finish_predictions();

 private:
  void take_cameras(const CameraPrediction& p);
  void take_depth(const DensePrediction& p);
  at::Tensor depth_of_cameras(const at::Tensor& along_axes, int64_t first_frame) const;
  void keep_depth(const DensePrediction& chunk);
  void take_points(const DensePrediction& p);
  void take_tracks(const TrackPrediction& p);
  void read_cameras();
  bool refine(const AdjustedScene& adjusted, int64_t room);
  void store();
  void add(int64_t first, const at::Tensor* depth, const at::Tensor* points, const at::Tensor& conf);
  void save(const char* name, int64_t first, const at::Tensor& values);
  bool depth_waits() const { return adjusted_depth_ != nullptr; }

  const ScenePlan& scene_;
  const ModelPlan& model_;
  const AdjustPlan& adjust_;
  const FrameSet& frames_;
  const std::shared_ptr<HostSpace> space_;
  StageTimes& times_;
  const Events& events_;
  CameraPrediction predicted_;  // fp32; of the adjusted cameras after an adjustment
  std::vector<Camera> cameras_;
  std::vector<double> guessed_focals_;  // the network's, in pixels of the originals, where others are given
  std::vector<Eigen::Isometry3d> guessed_poses_;  // likewise, where others are given, of depth_scale_
  std::vector<Eigen::Vector3d> axes_;             // where intrinsics are given: see take_intrinsics()
  double depth_scale_ = 1;                        // from the network's world to that of known poses
  bool is_adjusted_ = false;
  std::vector<Track> tracks_;
  std::vector<int> weak_frames_;
  std::optional<SceneBuilder> builder_;
  std::optional<DenseMaps> held_depth_;  // where it is adjusted, but no part of the cloud
  DenseMaps* adjusted_depth_ = nullptr;  // the maps that the adjustment changes; none where it changes none
  std::optional<PredictionsWriter> predictions_;
  TensorSource refiner_;  // of an adjusted scene's depth, if it is refined
  TaskQueue queue_;       // last, so that its thread ends before what it works on
};

}  // namespace vggt
