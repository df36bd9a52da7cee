#include "app/run/scene_sink.h"

#include <algorithm>

#include "app/adjust/adjust_scene.h"
#include "app/run/frame_input.h"
#include "app/scene/predicted_cameras.h"

namespace vggt {
namespace {

at::Tensor fp32(const at::Tensor& values) {
  return values.to(at::kCPU, at::kFloat).contiguous();
}

}  // namespace

SceneSink::SceneSink(const ScenePlan& scene, const ModelPlan& model, const AdjustPlan& adjust,
                     const FrameSet& frames, StageTimes& times, const Events& events)
    : scene_(scene), model_(model), adjust_(adjust), frames_(frames), times_(times), events_(events) {
  if (scene.source == CloudSource::none) return;
  builder_.emplace(scene.builder, frames.width, frames.height, frame_views(frames));
}

void SceneSink::save_predictions(const std::filesystem::path& place,
                                 const std::filesystem::path& final_path) {
  const Heads& heads = model_.options.heads;
  const auto count = static_cast<int64_t>(frames_.frames.size());
  const auto queries = heads.tracks ? static_cast<int64_t>(model_.queries.size()) : 0;
  predictions_.emplace(place, final_path,
                       PredictionShapes{count, frames_.height, frames_.width, queries, heads.camera,
                                        heads.depth, heads.points});
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor pixels = frame_pixels(frames_, i, 1);  // [1,3,H,W]
    save("images", i, pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(255) : pixels);
  }
}

Sink SceneSink::sink() {
  Sink sink;
  const Heads& heads = model_.options.heads;
  if (heads.camera) sink.cameras = [this](const CameraPrediction& p) { take_cameras(p); };
  if (heads.depth) sink.depth = [this](const DensePrediction& p) { take_depth(p); };
  if (heads.points) sink.points = [this](const DensePrediction& p) { take_points(p); };
  if (heads.tracks) sink.tracks = [this](const TrackPrediction& p) { take_tracks(p); };
  return sink;
}

std::optional<BuiltScene> SceneSink::scene() {
  return builder_ ? std::optional(builder_->finish()) : std::nullopt;
}

void SceneSink::finish_predictions() {
  if (!predictions_) return;
  if (model_.options.heads.camera) {
    save("pose_enc", 0, predicted_.pose_enc);
    save("extrinsic", 0, predicted_.extrinsic);
    save("intrinsic", 0, predicted_.intrinsic);
  }
  predictions_->close();
}

void SceneSink::take_cameras(const CameraPrediction& p) {
  times_.count("camera_head");
  predicted_ = {fp32(p.pose_enc), fp32(p.extrinsic), fp32(p.intrinsic)};
  read_cameras();
  times_.count("scene");
}

void SceneSink::read_cameras() {
  cameras_ =
      cameras_from(predicted_.pose_enc.const_data_ptr<float>(), predicted_.extrinsic.const_data_ptr<float>(),
                   predicted_.intrinsic.const_data_ptr<float>(), static_cast<int>(frames_.frames.size()),
                   frames_.width, frames_.height);
  map_to_originals(frames_, cameras_);
  if (builder_) builder_->set_cameras(cameras_);
}

void SceneSink::take_depth(const DensePrediction& p) {
  times_.count("depth_head");
  DensePrediction chunk;
  chunk.first_frame = p.first_frame;
  chunk.depth = fp32(p.depth);  // [F,H,W]
  chunk.depth_conf = fp32(p.depth_conf);
  if (adjust_.wanted && frames_.frames.size() <= kMostAdjusted) {
    held_.push_back(std::move(chunk));
  } else {
    hand_on_depth(chunk);
  }
  times_.count("scene");
}

void SceneSink::hand_on_depth(const DensePrediction& chunk) {
  save("depth", chunk.first_frame, chunk.depth);
  save("depth_conf", chunk.first_frame, chunk.depth_conf);
  if (scene_.source == CloudSource::depth) {
    add(chunk.first_frame, &chunk.depth, nullptr, chunk.depth_conf);
  }
}

std::string SceneSink::adjust() {
  times_.restart();
  MatchInput input;
  input.width = frames_.width;
  input.height = frames_.height;
  input.frames = frame_views(frames_);
  for (const DensePrediction& chunk : held_) {
    for (int64_t i = 0; i < chunk.depth.size(0); ++i) {
      input.depth.push_back(chunk.depth[i].const_data_ptr<float>());
    }
  }
  AdjustedScene adjusted = adjust_scene(input, cameras_, events_);
  if (adjusted.changed) {
    store_cameras(adjusted.cameras, predicted_.pose_enc.data_ptr<float>(),
                  predicted_.extrinsic.data_ptr<float>(), predicted_.intrinsic.data_ptr<float>());
    read_cameras();  // back from fp32: the cloud is made with the numbers that are saved
    for (DensePrediction& chunk : held_) {
      for (int64_t i = 0; i < chunk.depth.size(0); ++i) {
        const std::vector<float>& depth = adjusted.depth[static_cast<std::size_t>(chunk.first_frame + i)];
        std::ranges::copy(depth, chunk.depth[i].data_ptr<float>());
      }
    }
  }
  for (const DensePrediction& chunk : held_) hand_on_depth(chunk);
  held_.clear();
  times_.count("adjustment");
  if (adjusted.changed || !adjust_.asked) {
    events_.info("cameras and depth " + adjusted.summary);
  } else {
    events_.warn("cameras and depth " + adjusted.summary);
  }
  return adjusted.summary;
}

void SceneSink::take_points(const DensePrediction& p) {
  times_.count("point_head");
  const at::Tensor points = fp32(p.world_points), conf = fp32(p.world_points_conf);  // [F,H,W,3], [F,H,W]
  save("world_points", p.first_frame, points);
  save("world_points_conf", p.first_frame, conf);
  if (scene_.source == CloudSource::point_head) add(p.first_frame, nullptr, &points, conf);
  times_.count("scene");
}

void SceneSink::take_tracks(const TrackPrediction& p) {
  save("track", 0, fp32(p.track));
  save("track_vis", 0, fp32(p.track_vis));
  save("track_conf", 0, fp32(p.track_conf));
}

void SceneSink::add(int64_t first, const at::Tensor* depth, const at::Tensor* points,
                    const at::Tensor& conf) {
  events_.check_stop();
  builder_->add({static_cast<int>(first), static_cast<int>(conf.size(0)),
                 depth ? depth->const_data_ptr<float>() : nullptr,
                 points ? points->const_data_ptr<float>() : nullptr, conf.const_data_ptr<float>()});
}

void SceneSink::save(const char* name, int64_t first, const at::Tensor& values) {
  if (predictions_) predictions_->write(name, first, values.size(0), values.const_data_ptr<float>());
}

}  // namespace vggt
