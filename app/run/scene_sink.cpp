#include "app/run/scene_sink.h"

#include <algorithm>
#include <utility>

#include "app/adjust/adjust_scene.h"
#include "app/run/frame_input.h"
#include "app/run/memory_limits.h"
#include "app/run/model_loader.h"
#include "app/run/placement.h"
#include "app/run/process_memory.h"
#include "app/run/refine_depth.h"
#include "app/scene/predicted_cameras.h"
#include "app/scene/world_move.h"
#include "attention/out_of_memory.h"
#include "io/files/text.h"

namespace vggt {
namespace {

constexpr std::size_t kWaitingChunks = 2;  // of the network's results
constexpr std::size_t kNamed = 4;          // frames, in a line

at::Tensor fp32(const at::Tensor& values) {
  return values.to(at::kCPU, at::kFloat).contiguous();
}

/// Names the first frame of a few groups that nothing links, or little.
std::string groups_text(const std::vector<std::vector<int>>& groups, bool are_linked,
                        const FrameSet& frames) {
  std::vector<std::string> names;
  for (const std::vector<int>& group : groups)
    names.push_back(frames.frames[static_cast<std::size_t>(group.front())].file);
  return std::string(are_linked ? "few" : "no") + " matches link " + std::to_string(groups.size()) +
         " groups of frames, those with " + first_of(names, kNamed) + ": how these lie to each other " +
         (are_linked ? "may be wrong" : "is a guess");
}

/// The largest coordinate of the cameras' centres.
double farthest(const std::vector<Camera>& cameras) {
  double far = 0;
  for (const Camera& camera : cameras) far = std::max(far, camera.center().cwiseAbs().maxCoeff());
  return far;
}

}  // namespace

SceneSink::SceneSink(const RunPlan& plan, const FrameSet& frames, const std::shared_ptr<HostSpace>& space,
                     StageTimes& times, const Events& events)
    : scene_(plan.scene),
      model_(plan.model),
      adjust_(plan.adjust),
      frames_(frames),
      space_(space),
      times_(times),
      events_(events),
      queue_(kWaitingChunks) {
  if (scene_.source != CloudSource::none) {
    builder_.emplace(scene_.builder, frames.width, frames.height, frame_views(frames), frames.read_rgb, space,
                     FrameWork{plan.frames.threads, [&events] { events.check_stop(); }});
  }
  if (builder_) builder_->set_masks(frames.read_mask);
  if (holds_depth_apart(plan)) held_depth_.emplace(space, "depth");
  if (adjust_.refines) refiner_ = read_refiner(model_.weights);
  if (adjust_.wanted) adjusted_depth_ = held_depth_ ? &*held_depth_ : &builder_->maps();
}

void SceneSink::save_predictions(const std::filesystem::path& path,
                                 std::function<std::filesystem::path()> place) {
  const Heads& heads = model_.options.heads;
  const auto count = static_cast<int64_t>(frames_.frames.size());
  const auto queries = heads.tracks ? static_cast<int64_t>(model_.queries.size()) : 0;
  predictions_.emplace(path, std::move(place),
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

SceneBuilder* SceneSink::builder() {
  queue_.finish();
  return builder_ ? &*builder_ : nullptr;
}

void SceneSink::move(const Eigen::Affine3d& similarity) {
  queue_.finish();
  move_cameras(similarity, cameras_);
  move_tracks(similarity, tracks_);
  if (builder_) builder_->move(similarity);
  if (held_depth_) scale_depth(*held_depth_, static_cast<int>(frames_.frames.size()), scale_of(similarity));
}

const DenseMaps* SceneSink::depth_maps() {
  if (held_depth_) return &*held_depth_;
  return scene_.source == CloudSource::depth ? &builder_->maps() : nullptr;
}

void SceneSink::finish_predictions() {
  queue_.finish();
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
  queue_.finish();
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
  if (!adjust_.given.intrinsics_name.empty()) {
    for (const Camera& camera : cameras_)
      guessed_focals_.push_back(camera.valid ? mean_focal(lens_of(camera)) : 0);
  }
  axes_ = take_intrinsics(adjust_.given, frames_, cameras_);
  if (!adjust_.given.poses_name.empty()) {
    for (const Camera& camera : cameras_) guessed_poses_.push_back(camera.cam_from_world);
  }
  depth_scale_ = take_poses(adjust_.given, frames_, cameras_);
  if (!adjust_.given.poses_name.empty()) warn_of_rounding("poses", farthest(cameras_), depth_scale_, events_);
  for (Eigen::Isometry3d& pose : guessed_poses_) pose.translation() *= depth_scale_;
  if (!adjust_.given.intrinsics_name.empty() || !adjust_.given.poses_name.empty()) store();
  if (builder_) builder_->set_cameras(cameras_);
}

/// Makes the predictions those of the cameras.
void SceneSink::store() {
  store_cameras(cameras_, predicted_.pose_enc.data_ptr<float>(), predicted_.extrinsic.data_ptr<float>(),
                predicted_.intrinsic.data_ptr<float>());
}

void SceneSink::take_depth(const DensePrediction& p) {
  times_.count("depth_head");
  DensePrediction chunk;
  chunk.first_frame = p.first_frame;
  chunk.depth = fp32(p.depth);  // [F,H,W]
  if (depth_scale_ != 1) chunk.depth = chunk.depth * depth_scale_;
  if (!axes_.empty()) chunk.depth = depth_of_cameras(chunk.depth, p.first_frame);
  chunk.depth_conf = fp32(p.depth_conf);
  queue_.add([this, chunk = std::move(chunk)] { keep_depth(chunk); });
  times_.count("scene");
}

/// Depth [F,H,W] along the axes that the network took for those of the cameras as that of the cameras.
at::Tensor SceneSink::depth_of_cameras(const at::Tensor& along_axes, int64_t first_frame) const {
  at::Tensor depth = along_axes.clone();
  for (int64_t i = 0; i < depth.size(0); ++i) {
    const auto frame = static_cast<std::size_t>(first_frame + i);
    std::vector<float> factors = axis_factors(cameras_[frame], axes_[frame]);
    if (!factors.empty()) depth[i].mul_(at::from_blob(factors.data(), depth[i].sizes()));
  }
  return depth;
}

void SceneSink::keep_depth(const DensePrediction& chunk) {
  if (scene_.source == CloudSource::depth) add(chunk.first_frame, &chunk.depth, nullptr, chunk.depth_conf);
  if (!depth_waits()) {
    save("depth", chunk.first_frame, chunk.depth);
    save("depth_conf", chunk.first_frame, chunk.depth_conf);
  }
  if (!held_depth_) return;  // the builder has it, or nobody needs it
  const auto pixels = static_cast<std::size_t>(frames_.width) * static_cast<std::size_t>(frames_.height);
  for (int64_t i = 0; i < chunk.depth.size(0); ++i) {
    held_depth_->put(static_cast<int>(chunk.first_frame + i),
                     {chunk.depth[i].const_data_ptr<float>(), pixels},
                     {chunk.depth_conf[i].const_data_ptr<float>(), pixels});
  }
}

std::string SceneSink::adjust(int64_t room) {
  times_.restart();
  queue_.finish();
  const int frames = static_cast<int>(frames_.frames.size());
  AdjustOptions options = adjust_.options;
  options.most_bytes = static_cast<std::size_t>(room);
  MatchInput input = match_input(frames_, space_);
  for (std::size_t i = 0; i < guessed_focals_.size(); ++i) input.frames[i].guessed_focal = guessed_focals_[i];
  for (std::size_t i = 0; i < guessed_poses_.size(); ++i) input.frames[i].guessed_pose = guessed_poses_[i];
  AdjustedScene adjusted = adjust_scene(input, *adjusted_depth_, cameras_, options, events_);
  cameras_ = std::move(adjusted.cameras);
  is_adjusted_ = adjusted.changed;
  if (is_adjusted_) store();  // predictions otherwise stay the network's
  if (builder_) builder_->set_cameras(cameras_);
  tracks_ = std::move(adjusted.tracks);
  weak_frames_ = adjusted.weak_frames;
  if (!adjusted.wrong_poses.empty()) {
    std::vector<std::string> names;
    for (const int frame : adjusted.wrong_poses)
      names.push_back(frames_.frames[static_cast<std::size_t>(frame)].file);
    events_.warn("the given poses of these frames fit neither the images nor the other poses: " +
                 first_of(names, kNamed));
  }
  if (adjusted.guesses_focal)
    events_.warn(
        "the matches do not tell the focal length, as where few link the frames or one flat thing is seen "
        "straight on: it stays the network's, which may be far off; --intrinsics gives a known one");
  if (!adjusted.groups.empty())
    events_.warn(groups_text(adjusted.groups, adjusted.groups_are_linked, frames_));
  give_back_memory();
  times_.count("adjustment");
  if (adjust_.refines && is_adjusted_ && refine(adjusted, room)) adjusted.summary += "; depth refined";
  if (adjust_.must_refine && !is_adjusted_)
    events_.warn("depth is not refined, as the cameras are not adjusted");
  if (predictions_) {
    DenseMaps::Buffer buffer;
    for (int i = 0; i < frames; ++i) {
      predictions_->write("depth", i, 1, adjusted_depth_->values(i, buffer).data());
      predictions_->write("depth_conf", i, 1, adjusted_depth_->confidence(i, buffer).data());
    }
    times_.count("write");
  }
  if (is_adjusted_ || !adjust_.options.must) {
    events_.info("cameras and depth " + adjusted.summary);
  } else {
    events_.warn("cameras and depth " + adjusted.summary);
  }
  return adjusted.summary;
}

/// Whether that was done.
bool SceneSink::refine(const AdjustedScene& adjusted, int64_t room) {
  const FramesToRefine scene{frames_, cameras_, adjusted.pairs, adjusted.weak_frames, adjusted.first, space_};
  for (const bool lean : {false, true}) {
    try {
      refine_depth(DepthRefiner::load(refiner_), scene, *adjusted_depth_, room, lean, events_);
      give_back_memory();
      times_.count("refinement");
      return true;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error) || (lean && adjust_.must_refine)) throw;
    }
  }
  events_.warn("out of memory in the refinement: depth stays as it was adjusted");
  times_.restart();
  return false;
}

void SceneSink::take_points(const DensePrediction& p) {
  times_.count("point_head");
  const at::Tensor points = fp32(p.world_points), conf = fp32(p.world_points_conf);  // [F,H,W,3], [F,H,W]
  queue_.add([this, first = p.first_frame, points, conf] {
    save("world_points", first, points);
    save("world_points_conf", first, conf);
    if (scene_.source == CloudSource::point_head) add(first, nullptr, &points, conf);
  });
  times_.count("scene");
}

void SceneSink::take_tracks(const TrackPrediction& p) {
  queue_.finish();
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
