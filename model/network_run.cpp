#include "model/network_run.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "attention/out_of_memory.h"
#include "model/heads/head_constants.h"
#include "model/state/host_copy.h"

namespace vggt {
namespace {

at::Tensor to_cpu(const at::Tensor& x) {
  return x.to(at::kCPU).contiguous();
}

/// Of what enters and leaves the heads.
template <class Network>
at::TensorOptions head_options(const Network& net) {
  return at::TensorOptions().device(net.options.device).dtype(head_kind(net.options.precision).state);
}

/// What a checkpoint's tensors depend on, beside the weights and the pixels.
std::string run_text(const MemoryRequest& request) {
  std::ostringstream text;
  text.precision(17);
  text << request.frames << " frames of " << request.width << "x" << request.height << ", "
       << at::toString(aggregator_kind(request.precision).operand)
       << (request.precision == Precision::tf32 ? ", tf32" : "")
       << (request.heads_in_bf16 ? ", heads in bf16" : "")
       << (request.query_points > 0 ? ", with tracks" : "");
  if (const auto& m = request.merge)
    text << ", merged from " << m->start << ": " << m->ratio << " " << m->protect << " " << m->refresh << " "
         << m->metric << " " << m->seed;
  text << ", " << config_to_json(request.config, request.heads);
  return text.str();
}

/// Ranks that worked in other pieces would wait for each other for ever.
void check_same_plan(Group& group, const MemoryPlan& plan) {
  const Schedule& s = plan.schedule;
  std::ostringstream text;
  text << s.embed_frames << " " << s.pass_frames << " " << s.dense_frames << " " << (s.qkv == Place::device)
       << (s.residual == Place::device);
  for (const std::string& other : group.texts(text.str())) {
    if (other != text.str()) throw std::invalid_argument("ranks: their plans of memory differ");
  }
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
      group_(options.group),
      shares_{frames.frames, request.ranks},
      S_(shares_.count(group_ ? group_->rank() : 0)),
      kept_(kept_layers(net.config, net.options.heads)),
      keep_([this](int64_t layer, int64_t first, const at::Tensor& tokens) { keep(layer, first, tokens); }) {
  if (!plan_.fits) throw std::invalid_argument(budget_refusal(request, plan_));
  if (group_) check_same_plan(*group_, plan_);
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

/// Takes the first plan, after so many, with which the stage takes less.
bool Vggt::Run::take_less_after(int passed, const std::string& stage) {
  for (int next = passed;; ++next) {
    MemoryPlan plan = plan_memory(request_, next);
    if (!plan.fits) return false;
    const std::vector<int64_t> more = more_than_now(plan, stage);
    const bool less = std::ranges::max(more) <= 0 && std::ranges::min(more) < 0;
    if (!less || !adopt(std::move(plan))) continue;
    plans_passed_ = next;
    return true;
  }
}

/// In trunk and heads alike.
void Vggt::Run::limit_host(const MemoryBudget& before, int64_t bytes) {
  request_.budget.host = std::min(before.host + std::max(before.more_in_trunk, before.more_in_heads), bytes);
  request_.budget.more_in_trunk = request_.budget.more_in_heads = 0;
}

bool Vggt::Run::take_less(const std::string& stage) {
  if (take_less_after(plans_passed_ + 1, stage)) return true;
  if (plan_.schedule.qkv == Place::device) return false;
  // Attention outside the device takes what the budget leaves it, in more blocks where that is less.
  const MemoryBudget before = request_.budget;
  const int64_t now = plan_.peak_bytes() + (request_.gpu ? 0 : plan_.host_bytes);
  for (const int64_t tenths : {7, 9}) {
    if (request_.gpu)
      request_.budget.device = std::min(before.device, now * tenths / 10);
    else
      limit_host(before, now * tenths / 10);
    if (take_less_after(0, stage)) return true;
  }
  request_.budget = before;
  return false;
}

/// Beside a GPU, of which the plan needs no more.
bool Vggt::Run::take_less_of_host(const std::string& stage) {
  const MemoryBudget before = request_.budget;
  limit_host(before, plan_.host_bytes - 1);
  for (int next = 0;; ++next) {
    MemoryPlan plan = plan_memory(request_, next);
    if (!plan.fits) break;
    if (std::ranges::max(more_than_now(plan, stage)) > 0 || !adopt(std::move(plan))) continue;
    plans_passed_ = next;
    return true;
  }
  request_.budget = before;
  return false;
}

/// What takes the trunk's output.
void Vggt::Run::open_heads() {
  const at::TensorOptions options = head_options(net_);
  const auto maps = [&](std::unique_ptr<PatchMaps>& place, const DptHead& head, const char* name) {
    if (!place)
      place = std::make_unique<PatchMaps>(head, name, S_, frames_.height, frames_.width, net_.config,
                                          plan_.schedule, options);
  };
  if (net_.camera_head && !camera_tokens_.defined())
    camera_tokens_ = FrameTensor({S_, 2 * net_.config.embed_dim}, options, Place::device, S_);
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
    trunk_.emplace(*net_.aggregator, frames_, kept_, request_.merge, keep_, plan_.schedule, observer_,
                   group_);
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

/// Of all frames [S,2C], on the rank that hands out the results.
at::Tensor Vggt::Run::all_camera_tokens() const {
  const at::Tensor& own = camera_tokens_.whole();
  if (!group_) return own;
  std::vector<at::Tensor> parts(static_cast<size_t>(shares_.parts));
  parts[static_cast<size_t>(group_->rank())] = own;
  at::Tensor all;
  if (hands_out()) {
    all = at::empty({shares_.total, own.size(1)}, own.options());
    for (int64_t rank = 0; rank < shares_.parts; ++rank)
      parts[static_cast<size_t>(rank)] = all.narrow(0, shares_.begin(rank), shares_.count(rank));
    parts[0].copy_(own);
  }
  gather_at_first(*group_, std::move(parts));
  return all;
}

void Vggt::Run::camera() {
  if (!camera_tokens_.defined()) return;
  const at::Tensor tokens = all_camera_tokens();
  if (!hands_out()) return;
  const at::Tensor pose = to_cpu(net_.camera_head->open()->forward(tokens, observer_));  // [S,9]
  const CameraMatrices matrices = camera_matrices(pose, frames_.height, frames_.width);
  if (sink_.cameras) hand_out([&] { sink_.cameras({pose, matrices.extrinsic, matrices.intrinsic}); });
}

/// The chunks of all ranks, from `begin` of their shares on, on the rank that hands them out; none on the
/// others. own: of this rank's frames; empty where it has none left. of_frame: of one frame each, for their
/// shapes and types.
std::vector<Vggt::Run::Chunk> Vggt::Run::gather(int64_t begin, int64_t step, std::vector<at::Tensor> own,
                                                const std::vector<at::Tensor>& of_frame) const {
  if (!group_) return {{begin, std::move(own)}};
  std::vector<Chunk> chunks;
  for (int64_t rank = 0; rank < shares_.parts; ++rank) {
    const int64_t count = shares_.count_from(rank, begin, step);
    Chunk chunk{shares_.begin(rank) + begin, {}};
    if (rank == group_->rank()) {
      chunk.tensors = std::move(own);
    } else if (hands_out() && count > 0) {
      for (const at::Tensor& like : of_frame) {
        std::vector<int64_t> shape = like.sizes().vec();
        shape.insert(shape.begin(), count);
        chunk.tensors.push_back(at::empty(shape, like.options()));
      }
    }
    chunks.push_back(std::move(chunk));
  }
  for (size_t i = 0; i < of_frame.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const Chunk& chunk : chunks)
      parts.push_back(chunk.tensors.empty() ? at::Tensor() : chunk.tensors[i]);
    gather_at_first(*group_, std::move(parts));
  }
  if (!hands_out()) return {};
  std::erase_if(chunks, [](const Chunk& chunk) { return chunk.tensors.empty(); });
  return chunks;
}

/// Lets go of the head and what it reads. A GPU computes the next frames while the sink takes the last ones.
void Vggt::Run::dense(std::shared_ptr<const DptHead>& head, std::unique_ptr<PatchMaps>& maps,
                      const char* stage, bool is_depth) {
  if (!head) return;
  const DptPlaces places = head->places(frames_.height, frames_.width);
  const at::Tensor pixel = at::empty({}, head_options(net_)),
                   plane = pixel.expand({frames_.height, frames_.width}),
                   value = is_depth ? plane : pixel.expand({frames_.height, frames_.width, 3});
  struct Round {
    int64_t end = 0;  // of what the rank with most frames has done
    std::vector<Chunk> chunks;
  };
  const auto predict = [&](int64_t first) {
    const int64_t step = std::min(plan_.schedule.dense_frames, shares_.most() - first),
                  count = std::min(step, S_ - first);  // 0 where other ranks have one more
    std::vector<at::Tensor> own;
    if (count > 0) {
      const at::Tensor raw = head->forward(maps->take(first, count), frames_.height, frames_.width, places);
      const DenseOutput output = is_depth ? activate_depth(raw) : activate_points(raw);
      own = {output.values, output.confidence};
    }
    return Round{first + step, gather(first, step, std::move(own), {value, plane})};
  };
  const auto& take = is_depth ? sink_.depth : sink_.points;
  Round next;  // none where it ends at 0
  std::deque<std::pair<HostCopy, HostCopy>> copies(static_cast<size_t>(shares_.parts));
  while (dense_done_ < shares_.most()) {
    report_progress(observer_, stage, std::min(dense_done_ * shares_.parts, shares_.total), shares_.total);
    if (next.end == 0) next = predict(dense_done_);
    const int64_t end = next.end;
    std::vector<int64_t> firsts;
    for (const Chunk& chunk : next.chunks) {
      copies[firsts.size()].first.start(chunk.tensors[0]);
      copies[firsts.size()].second.start(chunk.tensors[1]);
      firsts.push_back(chunk.first);
    }
    next = {};
    if (end < shares_.most() && net_.options.device.is_cuda()) next = predict(end);
    for (size_t i = 0; i < firsts.size(); ++i) {
      DensePrediction prediction;
      prediction.first_frame = firsts[i];
      (is_depth ? prediction.depth : prediction.world_points) = copies[i].first.finish();
      (is_depth ? prediction.depth_conf : prediction.world_points_conf) = copies[i].second.finish();
      if (take) hand_out([&] { take(prediction); });
    }
    dense_done_ = end;
  }
  dense_done_ = 0;
  maps.reset();
  head.reset();
  report_progress(observer_, stage, shares_.total, shares_.total);
}

/// Each rank makes the features of its frames; the one that hands out the results follows the points.
void Vggt::Run::tracks(const at::Tensor& query_points) {
  if (!tracks_) return;
  std::optional<FeaturePyramid> pyramid;
  if (hands_out()) pyramid = tracks_->make_pyramid(shares_.total, plan_.track);
  const at::Tensor of_frame =
      at::empty({}, head_options(net_).dtype(tracks_->feature_extractor().operand_type()))
          .expand({frames_.height / kTrackStride, frames_.width / kTrackStride, net_.config.track_features});
  const int64_t step = plan_.schedule.dense_frames;
  for (int64_t first = 0; first < shares_.most(); first += step) {
    report_progress(observer_, "track_head", 0,
                    TrackHead::kIterations);  // where an observer may stop the run
    std::vector<at::Tensor> own;
    if (const int64_t count = std::min(step, S_ - first); count > 0)
      own = {tracks_->feature_maps(track_maps_->take(first, count), frames_.height, frames_.width)};
    for (const Chunk& chunk : gather(first, step, std::move(own), {of_frame}))
      tracks_->add_maps(*pyramid, chunk.first, chunk.tensors[0]);
  }
  if (!pyramid) return;
  const TrackHead::Tracks tracks = tracks_->forward(*pyramid, query_points, plan_.track, observer_);
  const TrackPrediction prediction{to_cpu(tracks.track), to_cpu(tracks.vis), to_cpu(tracks.conf)};
  if (sink_.tracks) hand_out([&] { sink_.tracks(prediction); });
}

}  // namespace vggt
