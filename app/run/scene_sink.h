#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "app/run/stage_times.h"
#include "app/scene/scene_builder.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "io/scene/prediction_writer.h"
#include "model/predictions.h"

namespace vggt {

/// Takes what the network gives: hands it to the scene builder and to the predictions file, and keeps the
/// cameras. What the constructor is given by reference must outlive the sink.
class SceneSink {
 public:
  SceneSink(const ScenePlan& scene, const ModelPlan& model, const AdjustPlan& adjust, const FrameSet& frames,
            StageTimes& times, const Events& events);

  /// Starts the predictions file at `place`, with the images; errors name `final_path`.
  void save_predictions(const std::filesystem::path& place, const std::filesystem::path& final_path);
  /// What Vggt::run() calls.
  Sink sink();

  /// After the network, where the plan says so: fits cameras and depth to the images, and hands both on.
  /// Returns what became of them, such as "adjusted to 9446 matches in 111 pairs of frames".
  std::string adjust();

  /// The cameras, adjusted if an adjustment ran; none without the camera head.
  const std::vector<Camera>& cameras() const { return cameras_; }
  /// The scene, if one is to be made.
  std::optional<BuiltScene> scene();
  void finish_predictions();

 private:
  void take_cameras(const CameraPrediction& p);
  void take_depth(const DensePrediction& p);
  void hand_on_depth(const DensePrediction& chunk);
  void take_points(const DensePrediction& p);
  void take_tracks(const TrackPrediction& p);
  void read_cameras();
  void add(int64_t first, const at::Tensor* depth, const at::Tensor* points, const at::Tensor& conf);
  void save(const char* name, int64_t first, const at::Tensor& values);

  const ScenePlan& scene_;
  const ModelPlan& model_;
  const AdjustPlan& adjust_;
  const FrameSet& frames_;
  StageTimes& times_;
  const Events& events_;
  CameraPrediction predicted_;  // fp32; of the adjusted cameras after an adjustment
  std::vector<Camera> cameras_;
  std::vector<DensePrediction> held_;  // depth that waits for the adjustment, chunks of frames in order
  std::optional<SceneBuilder> builder_;
  std::optional<PredictionsWriter> predictions_;
};

}  // namespace vggt
