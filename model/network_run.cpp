#include "model/network_run.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "attention/stream/out_of_memory.h"
#include "model/state/host_copy.h"

namespace vggt {
namespace {

at::Tensor to_cpu(const at::Tensor& x) {
  return x.to(at::kCPU).contiguous();
}

/// What a checkpoint's tensors depend on, beside the weights and the pixels.
std::string run_text(const MemoryRequest& request) {
  std::ostringstream text;
  text.precision(17);
  text << request.frames << " frames of " << request.width << "x" << request.height << ", "
       << at::toString(aggregator_kind(request.precision).operand)
       << (request.precision == Precision::tf32 ? ", tf32" : "")
       << (request.query_points > 0 ? ", with tracks" : "");
  if (const auto& m = request.merge)
    text << ", merged from " << m->start << ": " << m->ratio << " " << m->protect << " " << m->refresh << " "
         << m->metric << " " << m->seed;
  text << ", " << config_to_json(request.config, request.heads);
  return text.str();
}

}  // namespace

Vggt::Run::Run(const Network& net, const FrameProvider& frames, const MemoryRequest& request,
               const RunOptions& options, const Sink& sink, const Observer& observer)
    : net_(net),
      frames_(frames),
      request_(request),
      plan_(plan_memory(request, options.plans_passed)),
      plans_passed_(options.plans_passed),
      sink_(sink),
      observer_(observer),
      kept_(kept_layers(net.config, net.options.heads)),
      keep_([this](int64_t layer, int64_t first, const at::Tensor& tokens) { keep(layer, first, tokens); }) {
  if (!plan_.fits) throw std::invalid_argument(budget_refusal(request, plan_));
  if (!options.checkpoints) return;
  checkpoint_.emplace(options.checkpoints->folder, run_text(request));
  checkpoint_seconds_ = options.checkpoints->seconds;
}

void Vggt::Run::keep(int64_t layer, int64_t first, const at::Tensor& tokens) {
  if (camera_tokens_.defined() && layer == net_.config.depth - 1)
    camera_tokens_.whole().narrow(0, first, tokens.size(0)).copy_(tokens.select(1, 0));
  for (PatchMaps* maps : all_maps()) {
    if (maps) maps->add(layer, first, tokens);
  }
}

/// Bytes that the plan needs more than the run's in each part of a stage. All memory of the CPU is the
/// host's.
std::vector<int64_t> Vggt::Run::more_than_now(const MemoryPlan& plan, const std::string& stage) const {
  std::vector<std::string> parts{stage};
  if (stage == "aggregator") parts = {"patch_embed", "frame_block", "global_block"};
  const int64_t host = request_.gpu ? 0 : plan.host_bytes - plan_.host_bytes;
  std::vector<int64_t> more;
  for (const std::string& part : parts) more.push_back(plan.peak_bytes(part) - plan_.peak_bytes(part) + host);
  return more;
}

/// Moves what the run keeps to where the plan has it. False where memory runs out on the way: some of it has
/// moved, and the run goes on by its plan or takes another.
bool Vggt::Run::adopt(MemoryPlan plan) {
  std::swap(plan_, plan);
  try {
    if (trunk_) trunk_->change(plan_.schedule);
    for (PatchMaps* maps : all_maps()) {
      if (maps) maps->move();
    }
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
  }
  std::swap(plan_, plan);
  return false;
}

bool Vggt::Run::take_less(const std::string& stage) {
  for (int next = plans_passed_ + 1;; ++next) {
    MemoryPlan plan = plan_memory(request_, next);
    if (!plan.fits) return false;
    const std::vector<int64_t> more = more_than_now(plan, stage);
    const bool less = std::ranges::max(more) <= 0 && std::ranges::min(more) < 0;
    if (!less || !adopt(std::move(plan))) continue;
    plans_passed_ = next;
    return true;
  }
}

/// Beside a GPU, of which the plan needs no more.
bool Vggt::Run::take_less_of_host(const std::string& stage) {
  const int64_t before = request_.budget.host;
  request_.budget.host = std::min(before, plan_.host_bytes - 1);
  for (int next = 0;; ++next) {
    MemoryPlan plan = plan_memory(request_, next);
    if (!plan.fits) break;
    if (std::ranges::max(more_than_now(plan, stage)) > 0 || !adopt(std::move(plan))) continue;
    plans_passed_ = next;
    return true;
  }
  request_.budget.host = before;
  return false;
}

/// What takes the trunk's output.
void Vggt::Run::open_heads() {
  const auto options =
      at::TensorOptions().device(net_.options.device).dtype(head_kind(net_.options.precision).state);
  const auto maps = [&](std::unique_ptr<PatchMaps>& place, const DptHead& head, const char* name) {
    if (!place)
      place = std::make_unique<PatchMaps>(head, name, request_, net_.config, plan_.schedule, options);
  };
  if (net_.camera_head && !camera_tokens_.defined())
    camera_tokens_ =
        FrameTensor({frames_.frames, 2 * net_.config.embed_dim}, options, Place::device, frames_.frames);
  if (net_.depth_head && !depth_) depth_ = net_.depth_head->open();
  if (net_.point_head && !points_) points_ = net_.point_head->open();
  if (net_.track_head && request_.query_points > 0 && !tracks_) tracks_ = net_.track_head->open();
  if (depth_) maps(depth_maps_, *depth_, "depth");
  if (points_) maps(point_maps_, *points_, "points");
  if (tracks_) maps(track_maps_, tracks_->feature_extractor(), "tracks");
}

void Vggt::Run::trunk() {
  open_heads();
  const bool finished = checkpoint_ && checkpoint_->layers() == layers();
  if (!finished && !trunk_)
    trunk_.emplace(*net_.aggregator, frames_, kept_, request_.merge, keep_, plan_.schedule, observer_);
  if (!restored_) restore();
  if (finished) return report_progress(observer_, "aggregator", layers(), layers());
  trunk_->run(!checkpoint_ ? std::function<void(int64_t)>() : [this](int64_t done) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - saved_;
    if (since.count() >= checkpoint_seconds_) save(done);
  });
  if (checkpoint_) save(layers());
  weights_overlap_ = trunk_->weights_overlap();
  attention_overlap_ = trunk_->attention_overlap();
  trunk_.reset();
}

/// Goes on from the checkpoint, where there is one.
void Vggt::Run::restore() {
  if (checkpoint_ && checkpoint_->layers() > 0) {
    for (PatchMaps* maps : all_maps()) {
      if (maps) maps->restore(*checkpoint_);
    }
    if (camera_tokens_.defined() && checkpoint_->layers() == net_.config.depth)
      checkpoint_->read("camera", camera_tokens_);
    if (trunk_) checkpoint_->read("residual", trunk_->go_on_after(checkpoint_->layers()));
  }
  restored_ = true;
}

void Vggt::Run::save(int64_t done) {
  for (PatchMaps* maps : all_maps()) {
    if (maps) maps->save(*checkpoint_);
  }
  if (done < layers()) {
    checkpoint_->write("residual", trunk_->residual());
  } else {
    checkpoint_->drop("residual");
    if (camera_tokens_.defined()) checkpoint_->write("camera", camera_tokens_);
  }
  checkpoint_->publish(done);
  saved_ = std::chrono::steady_clock::now();
}

void Vggt::Run::camera() {
  if (!camera_tokens_.defined()) return;
  const at::Tensor pose =
      to_cpu(net_.camera_head->open()->forward(camera_tokens_.whole(), observer_));  // [S,9]
  const CameraMatrices matrices = camera_matrices(pose, frames_.height, frames_.width);
  if (sink_.cameras) hand_out([&] { sink_.cameras({pose, matrices.extrinsic, matrices.intrinsic}); });
}

/// Lets go of the head and what it reads. A GPU computes the next frames while the sink takes the last ones.
void Vggt::Run::dense(std::shared_ptr<const DptHead>& head, std::unique_ptr<PatchMaps>& maps,
                      const char* stage, bool is_depth) {
  if (!head) return;
  const int64_t S = frames_.frames;
  const DptPlaces places = head->places(frames_.height, frames_.width);
  const auto predict = [&](int64_t first) {
    const int64_t count = std::min(plan_.schedule.dense_frames, S - first);
    const at::Tensor raw = head->forward(maps->take(first, count), frames_.height, frames_.width, places);
    return is_depth ? activate_depth(raw) : activate_points(raw);
  };
  const auto& take = is_depth ? sink_.depth : sink_.points;
  std::optional<DenseOutput> next;
  HostCopy values, confidence;
  while (dense_done_ < S) {
    report_progress(observer_, stage, dense_done_, S);
    if (!next) next = predict(dense_done_);
    const int64_t end = dense_done_ + next->values.size(0);
    values.start(next->values);
    confidence.start(next->confidence);
    next.reset();
    if (end < S && net_.options.device.is_cuda()) next = predict(end);
    DensePrediction prediction;
    prediction.first_frame = dense_done_;
    (is_depth ? prediction.depth : prediction.world_points) = values.finish();
    (is_depth ? prediction.depth_conf : prediction.world_points_conf) = confidence.finish();
    if (take) hand_out([&] { take(prediction); });
    dense_done_ = end;
  }
  dense_done_ = 0;
  maps.reset();
  head.reset();
  report_progress(observer_, stage, S, S);
}

void Vggt::Run::tracks(const at::Tensor& query_points) {
  if (!tracks_) return;
  const int64_t S = frames_.frames;
  FeaturePyramid pyramid = tracks_->make_pyramid(S, plan_.track);
  for (int64_t first = 0; first < S; first += plan_.schedule.dense_frames) {
    report_progress(observer_, "track_head", 0,
                    TrackHead::kIterations);  // where an observer may stop the run
    const int64_t count = std::min(plan_.schedule.dense_frames, S - first);
    tracks_->add_frames(pyramid, first, track_maps_->take(first, count), frames_.height, frames_.width);
  }
  const TrackHead::Tracks tracks = tracks_->forward(pyramid, query_points, plan_.track, observer_);
  const TrackPrediction prediction{to_cpu(tracks.track), to_cpu(tracks.vis), to_cpu(tracks.conf)};
  if (sink_.tracks) hand_out([&] { sink_.tracks(prediction); });
}

}  // namespace vggt
