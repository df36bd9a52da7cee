#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "app/adjust/adjust_scene.h"
#include "app/events/console.h"
#include "io/scene/prediction_writer.h"
#include "app/report/report.h"
#include "app/scene/scene_builder.h"
#include "app/run/run_plan.h"
#include "io/frames/frames.h"

namespace vggt {

/// Takes what the network gives: hands it to the scene builder and the predictions file, and keeps the
/// cameras. What it is given by reference must outlive it.
class Results {
 public:
  Results(const Options& options, const Setup& setup, const FrameSet& frames, StageTimes& times);

  /// Starts the predictions file at `place`, with the images; errors name `final_path`.
  void save_predictions(const std::filesystem::path& place, const std::filesystem::path& final_path);
  Sink sink();
  /// After the network, where set-up says so: fits cameras and depth to the images, and hands them on.
  AdjustedScene adjust(Console& console);

  const std::vector<View>& views() const { return views_; }
  /// The scene, if one is to be made.
  std::optional<BuiltScene> scene();
  void finish_predictions();

 private:
  void take_cameras(const CameraPrediction& p);
  void set_cameras(const CameraPrediction& fp32);
  void take_depth(const DensePrediction& p);
  void hand_on_depth(const DensePrediction& chunk);
  void take_points(const DensePrediction& p);
  void take_tracks(const TrackPrediction& p);
  void add(int64_t first, const at::Tensor* depth, const at::Tensor* points, const at::Tensor& conf);
  void save(const char* name, int64_t first, const at::Tensor& values);

  const Options& options_;
  const Setup& setup_;
  const FrameSet& frames_;
  StageTimes& times_;
  std::vector<View> views_;
  CameraPrediction cameras_;           // fp32
  std::vector<DensePrediction> held_;  // depth that waits for the adjustment, chunks of frames in order
  std::optional<SceneBuilder> builder_;
  std::optional<PredictionsWriter> predictions_;
};

}  // namespace vggt
