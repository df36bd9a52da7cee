#include "app/results.h"

#include "app/frame_input.h"
#include "app/stop.h"

namespace vggt {
namespace {

at::Tensor fp32(const at::Tensor& values) {
  return values.to(at::kCPU, at::kFloat).contiguous();
}

}  // namespace

Results::Results(const Options& options, const Setup& setup, const FrameSet& frames, StageTimes& times)
    : setup_(setup), frames_(frames), times_(times) {
  if (setup.heads.cloud == CloudSource::none) return;
  const SceneOptions scene = {options.conf_percentile, options.conf_threshold, options.mask_black,
                              options.mask_white, options.depth_edge};
  builder_.emplace(scene, frames.width, frames.height, frame_views(frames));
}

void Results::save_predictions(const std::filesystem::path& place, const std::filesystem::path& final_path) {
  const Heads& heads = setup_.heads.run;
  const auto count = static_cast<int64_t>(frames_.frames.size());
  const auto queries = heads.tracks ? static_cast<int64_t>(setup_.queries.size()) : 0;
  predictions_.emplace(place, final_path,
                       PredictionShapes{count, frames_.height, frames_.width, queries, heads.camera,
                                        heads.depth, heads.points});
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor pixels = frame_pixels(frames_, i, 1);  // [1,3,H,W]
    save("images", i, pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(255) : pixels);
  }
}

Sink Results::sink() {
  Sink sink;
  const Heads& heads = setup_.heads.run;
  // Refined ones come after the points: the last are saved, and a cloud of points is filtered by the first.
  if (heads.camera) sink.cameras = [this](const CameraPrediction& p) { take_cameras(p); };
  if (heads.depth) sink.depth = [this](const DensePrediction& p) { take_depth(p); };
  if (heads.points) sink.points = [this](const DensePrediction& p) { take_points(p); };
  if (heads.tracks) sink.tracks = [this](const TrackPrediction& p) { take_tracks(p); };
  return sink;
}

std::optional<BuiltScene> Results::scene() {
  return builder_ ? std::optional(builder_->finish()) : std::nullopt;
}

void Results::finish_predictions() {
  if (!predictions_) return;
  if (setup_.heads.run.camera) {
    save("pose_enc", 0, cameras_.pose_enc);
    save("extrinsic", 0, cameras_.extrinsic);
    save("intrinsic", 0, cameras_.intrinsic);
  }
  predictions_->close();
}

void Results::take_cameras(const CameraPrediction& p) {
  times_.count("camera_head");
  const at::Tensor pose = fp32(p.pose_enc), extrinsic = fp32(p.extrinsic), intrinsic = fp32(p.intrinsic);
  views_ = views_from(pose.const_data_ptr<float>(), extrinsic.const_data_ptr<float>(),
                      intrinsic.const_data_ptr<float>(), static_cast<int>(frames_.frames.size()));
  if (builder_) builder_->set_views(views_);
  cameras_ = {pose, extrinsic, intrinsic};
  times_.count("scene");
}

void Results::take_depth(const DensePrediction& p) {
  times_.count("depth_head");
  const at::Tensor depth = fp32(p.depth), conf = fp32(p.depth_conf);  // [F,H,W]
  save("depth", p.first_frame, depth);
  save("depth_conf", p.first_frame, conf);
  if (setup_.heads.cloud == CloudSource::depth) add(p.first_frame, &depth, nullptr, conf);
  times_.count("scene");
}

void Results::take_points(const DensePrediction& p) {
  times_.count("point_head");
  const at::Tensor points = fp32(p.world_points), conf = fp32(p.world_points_conf);  // [F,H,W,3], [F,H,W]
  save("world_points", p.first_frame, points);
  save("world_points_conf", p.first_frame, conf);
  if (setup_.heads.cloud == CloudSource::point_head) add(p.first_frame, nullptr, &points, conf);
  times_.count("scene");
}

void Results::take_tracks(const TrackPrediction& p) {
  save("track", 0, fp32(p.track));
  save("track_vis", 0, fp32(p.track_vis));
  save("track_conf", 0, fp32(p.track_conf));
}

void Results::add(int64_t first, const at::Tensor* depth, const at::Tensor* points, const at::Tensor& conf) {
  check_stop();
  builder_->add({static_cast<int>(first), static_cast<int>(conf.size(0)),
                 depth ? depth->const_data_ptr<float>() : nullptr,
                 points ? points->const_data_ptr<float>() : nullptr, conf.const_data_ptr<float>()});
}

void Results::save(const char* name, int64_t first, const at::Tensor& values) {
  if (predictions_) predictions_->write(name, first, values.size(0), values.const_data_ptr<float>());
}

}  // namespace vggt
