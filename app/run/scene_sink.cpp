#include "app/run/scene_sink.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>

#include "app/run/frame_input.h"
#include "app/events/stop.h"

namespace vggt {
namespace {

at::Tensor fp32(const at::Tensor& values) {
  return values.to(at::kCPU, at::kFloat).contiguous();
}

/// The network's arrays of these views; those of views that are not valid stay.
CameraPrediction predicted(const std::vector<View>& views, const CameraPrediction& given) {
  CameraPrediction result = {given.pose_enc.clone(), given.extrinsic.clone(), given.intrinsic.clone()};
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!views[i].valid) continue;
    float* pose = result.pose_enc.data_ptr<float>() + 9 * i;
    float* extrinsic = result.extrinsic.data_ptr<float>() + 12 * i;
    float* intrinsic = result.intrinsic.data_ptr<float>() + 9 * i;
    const Eigen::Matrix<double, 3, 4> camera = views[i].cam_from_world.topRows<3>();
    const Eigen::Quaterniond turn(Eigen::Matrix3d(camera.leftCols<3>()));
    Eigen::Map<Eigen::Vector3f>{pose} = camera.col(3).cast<float>();
    Eigen::Map<Eigen::Vector4f>{pose + 3} = turn.coeffs().cast<float>();  // xyzw
    pose[7] = static_cast<float>(2 * std::atan(views[i].k(1, 2) / views[i].k(1, 1)));
    pose[8] = static_cast<float>(2 * std::atan(views[i].k(0, 2) / views[i].k(0, 0)));
    Eigen::Map<Eigen::Matrix<float, 3, 4, Eigen::RowMajor>>{extrinsic} = camera.cast<float>();
    Eigen::Map<Eigen::Matrix<float, 3, 3, Eigen::RowMajor>>{intrinsic} = views[i].k.cast<float>();
  }
  return result;
}

}  // namespace

Results::Results(const Options& options, const Setup& setup, const FrameSet& frames, StageTimes& times)
    : options_(options), setup_(setup), frames_(frames), times_(times) {
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
  set_cameras({fp32(p.pose_enc), fp32(p.extrinsic), fp32(p.intrinsic)});
  times_.count("scene");
}

void Results::set_cameras(const CameraPrediction& fp32) {
  views_ = views_from(fp32.pose_enc.const_data_ptr<float>(), fp32.extrinsic.const_data_ptr<float>(),
                      fp32.intrinsic.const_data_ptr<float>(), static_cast<int>(frames_.frames.size()));
  if (builder_) builder_->set_views(views_);
  cameras_ = fp32;
}

void Results::take_depth(const DensePrediction& p) {
  times_.count("depth_head");
  DensePrediction chunk;
  chunk.first_frame = p.first_frame;
  chunk.depth = fp32(p.depth);  // [F,H,W]
  chunk.depth_conf = fp32(p.depth_conf);
  if (setup_.bundle_adjust && frames_.frames.size() <= kMostAdjusted) {
    held_.push_back(std::move(chunk));
  } else {
    hand_on_depth(chunk);
  }
  times_.count("scene");
}

void Results::hand_on_depth(const DensePrediction& chunk) {
  save("depth", chunk.first_frame, chunk.depth);
  save("depth_conf", chunk.first_frame, chunk.depth_conf);
  if (setup_.heads.cloud == CloudSource::depth)
    add(chunk.first_frame, &chunk.depth, nullptr, chunk.depth_conf);
}

AdjustedScene Results::adjust(Console& console) {
  times_.restart();
  MatchInput input;
  input.width = frames_.width;
  input.height = frames_.height;
  input.frames = frame_views(frames_);
  input.threads = static_cast<int>(options_.threads);
  for (const DensePrediction& chunk : held_) {
    for (int64_t i = 0; i < chunk.depth.size(0); ++i) {
      input.depth.push_back(chunk.depth[i].const_data_ptr<float>());
    }
  }
  AdjustedScene adjusted = adjust_scene(
      input, views_, [&](int done, int total) { console.progress("adjustment", "pairs", done, total); });
  if (adjusted.changed) {
    set_cameras(predicted(adjusted.views, cameras_));
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
  return adjusted;
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
