#include "model/vggt.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDACachingAllocator.h>

#include "attention/cuda/cuda.h"
#endif
#include "attention/stream/out_of_memory.h"
#include "model/checkpoint.h"
#include "model/heads/camera_head.h"
#include "model/heads/dpt_head.h"
#include "model/heads/track_head.h"
#include "model/layers/linear.h"
#include "model/trunk/aggregator.h"
#include "model/trunk/frame_tensor.h"
#include "model/trunk/trunk_run.h"

namespace vggt {
namespace {

at::ScalarType operand_type(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return at::kDouble;
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

/// How the aggregator computes: its products have operands of the run's precision.
ComputeKind aggregator_kind(Precision precision) {
  const bool tf32 = precision == Precision::tf32;
  const bool half = precision == Precision::bf16 || precision == Precision::fp16;
  return {operand_type(precision), precision == Precision::fp64 ? at::kDouble : at::kFloat, tf32,
          tf32 || half};
}

/// How the heads compute: beside an aggregator in bf16 or fp16 their operands stay in fp32, as in the
/// reference, and their convolutions are in TF32, which is PyTorch's default.
ComputeKind head_kind(Precision precision) {
  ComputeKind kind = aggregator_kind(precision);
  kind.operand = kind.state;
  return kind;
}

/// What `automatic` stands for in precision tf32. attention() never picks turbo by itself, as it costs
/// accuracy.
AttentionVariant tf32_variant([[maybe_unused]] const ModelOptions& options,
                              [[maybe_unused]] int64_t head_dim) {
#ifdef VGGT_CUDA
  if (options.device.is_cuda()) {
    const CudaDevice device = cuda_device(numbered(options.device));
    if (variant_refusal(AttentionVariant::turbo, CudaElement::fp32, head_dim, device).empty())
      return AttentionVariant::turbo;
  }
#endif
  return AttentionVariant::automatic;
}

/// The attention options of blocks with operands of this type. head_dim: channels of the widest head. Variant
/// `half` is for bf16 and fp16 alone: the camera head, in fp32 beside such an aggregator, takes `automatic`.
AttentionOptions attention_options(const ModelOptions& options, at::ScalarType type, int64_t head_dim) {
  AttentionOptions attention;
  const bool fits = options.attention != AttentionVariant::half || type != at::kFloat;
  if (fits) attention.variant = options.attention;
  const bool automatic = attention.variant == AttentionVariant::automatic;
  if (automatic && options.precision == Precision::tf32 && type == at::kFloat)
    attention.variant = tf32_variant(options, head_dim);
  attention.tuner = options.tuner;
  return attention;
}

DptSpec depth_spec(const Config& config) {
  return {"depth_head", config.dpt_features, 2, 1, true};
}
DptSpec point_spec(const Config& config) {
  return {"point_head", config.dpt_features, 4, 1, true};
}

/// Channels of the widest head of the trunk's attention.
int64_t widest_head(const Config& config) {
  return config.embed_dim / std::min(config.num_heads, config.vit_num_heads);
}

at::Tensor to_cpu(const at::Tensor& x) {
  return x.to(at::kCPU).contiguous();
}

}  // namespace

struct Vggt::Network {
  Network(Binder& bind, const Config& config, const ModelOptions& options);

  std::set<int64_t> kept_layers() const;
  void check_process() const;
  template <class Part>
  void bind_part(Binder& bind, bool wanted, std::optional<HeldPart<Part>>& part,
                 std::function<Part(Binder&)> make);

  Config config;
  ModelOptions options;
  std::optional<Aggregator> aggregator;
  std::optional<HeldPart<CameraHead>> camera_head;
  std::optional<HeldPart<DptHead>> depth_head, point_head;
  std::optional<HeldPart<TrackHead>> track_head;
};

template <class Part>
void Vggt::Network::bind_part(Binder& bind, bool wanted, std::optional<HeldPart<Part>>& part,
                              std::function<Part(Binder&)> make) {
  if (wanted) part.emplace(bind, std::move(make));
}

Vggt::Network::Network(Binder& bind, const Config& config_, const ModelOptions& options_)
    : config(config_), options(options_) {
  const Heads& heads = options.heads;
  const ComputeKind trunk = aggregator_kind(options.precision), exact = head_kind(options.precision);
  bind.set_kind(trunk);
  aggregator.emplace(bind, config, attention_options(options, trunk.operand, widest_head(config)));
  ComputeKind of_camera = exact;
  of_camera.few_rows = true;  // one a frame
  bind.set_kind(of_camera);
  const AttentionOptions of_frames =
      attention_options(options, exact.operand, 2 * config.embed_dim / config.camera_num_heads);
  bind_part<CameraHead>(bind, heads.camera, camera_head,
                        [c = config, of_frames](Binder& b) { return CameraHead(b, c, of_frames); });
  bind.set_kind(exact);
  bind_part<DptHead>(bind, heads.depth, depth_head,
                     [c = config](Binder& b) { return DptHead(b, c, depth_spec(c)); });
  bind_part<DptHead>(bind, heads.points, point_head,
                     [c = config](Binder& b) { return DptHead(b, c, point_spec(c)); });
  bind_part<TrackHead>(bind, heads.tracks, track_head, [c = config](Binder& b) { return TrackHead(b, c); });
}

/// Layers that some head reads.
std::set<int64_t> Vggt::Network::kept_layers() const {
  std::set<int64_t> layers;
  if (depth_head || point_head || track_head)
    layers.insert(config.intermediate_layers.begin(), config.intermediate_layers.end());
  if (camera_head) layers.insert(config.depth - 1);
  return layers;
}

/// Throws now what the heads would throw after the trunk has run.
void Vggt::Network::check_process() const {
  if (options.precision == Precision::fp64 || !options.device.is_cuda()) return;
  const at::Tensor none = at::empty({0}, at::device(options.device).dtype(at::kFloat));
  check_tf32_setting(none, options.precision == Precision::tf32);
}

namespace {

/// What a dense head has projected of the layers that it reads, of all frames.
class PatchMaps {
 public:
  PatchMaps(const DptHead& head, const std::string& name, const MemoryRequest& sizes, const Config& config,
            const Schedule& schedule, const at::TensorOptions& options)
      : head_(head),
        name_(name),
        frames_(sizes.frames),
        patches_((sizes.height / config.patch_size) * (sizes.width / config.patch_size)),
        layers_(config.intermediate_layers),
        schedule_(&schedule),
        options_(options) {}

  /// tokens [F,P,2C] of a layer that is kept.
  void add(int64_t layer, int64_t first, const at::Tensor& tokens) {
    for (size_t level = 0; level < 4; ++level) {
      if (layers_[level] != layer) continue;
      if (!maps_[level].defined()) allocate(level);
      maps_[level].give(first, head_.project(level, tokens));
    }
  }
  /// Writes the maps that the checkpoint lacks.
  void save(Checkpoint& checkpoint) {
    for (size_t level = 0; level < 4; ++level) {
      if (maps_[level].defined() && !checkpoint.holds(name(level)))
        checkpoint.write(name(level), maps_[level]);
    }
  }
  /// Reads those of the layers that the checkpoint has finished.
  void restore(const Checkpoint& checkpoint) {
    for (size_t level = 0; level < 4; ++level) {
      if (layers_[level] >= checkpoint.layers()) continue;
      if (!maps_[level].defined()) allocate(level);
      checkpoint.read(name(level), maps_[level]);
    }
  }
  /// After the schedule has changed.
  void move() {
    for (size_t level = 0; level < 4; ++level) maps_[level].move_to(schedule_->maps, piece(), file(level));
  }
  /// [F,p,channels] each.
  std::array<at::Tensor, 4> take(int64_t first, int64_t count) {
    std::array<at::Tensor, 4> patches;
    for (size_t level = 0; level < 4; ++level) patches[level] = maps_[level].take(first, count);
    return patches;
  }

 private:
  void allocate(size_t level) {
    maps_[level] = FrameTensor({frames_, patches_, head_.channels(level)}, options_, schedule_->maps, piece(),
                               file(level));
  }
  int64_t piece() const { return std::max(schedule_->keep_frames, schedule_->dense_frames); }
  std::string name(size_t level) const { return name_ + std::to_string(level); }
  std::filesystem::path file(size_t level) const { return schedule_->scratch / name(level); }

  const DptHead& head_;
  std::string name_;
  int64_t frames_, patches_;
  std::array<int64_t, 4> layers_;
  const Schedule* schedule_;
  at::TensorOptions options_;
  std::array<FrameTensor, 4> maps_;  // [S,p,channels], each from its layer on
};

/// What a checkpoint's tensors depend on, beside the weights and the pixels.
std::string run_text(const MemoryRequest& request) {
  std::ostringstream text;
  text.precision(17);
  text << request.frames << " frames of " << request.width << "x" << request.height << ", "
       << at::toString(operand_type(request.precision))
       << (request.precision == Precision::tf32 ? ", tf32" : "")
       << (request.query_points > 0 ? ", with tracks" : "");
  if (const auto& m = request.merge)
    text << ", merged from " << m->start << ": " << m->ratio << " " << m->protect << " " << m->refresh << " "
         << m->seed;
  text << ", " << config_to_json(request.config, request.heads);
  return text.str();
}

}  // namespace

/// One run of the network. Each stage may be called again after it ran out of memory, and goes on where it
/// stood.
class Vggt::Run {
 public:
  Run(const Network& net, const FrameProvider& frames, const MemoryRequest& request,
      const RunOptions& options, const Sink& sink, const Observer& observer);

  void trunk();
  void camera();
  void depth() { dense(depth_, depth_maps_, "depth_head", true); }
  void points() { dense(points_, point_maps_, "point_head", false); }
  void tracks(const at::Tensor& query_points);

  const MemoryPlan& plan() const { return plan_; }
  RunReport report() const { return {plan_, weights_overlap_, attention_overlap_}; }
  /// Whether an exception came out of the sink, which takes every prediction once.
  bool sink_failed() const { return sink_failed_; }
  /// Grows while a stage gets on.
  int64_t stored() const { return trunk_ ? trunk_->stored() : dense_done_; }
  /// Takes the next plan that needs less memory in this stage; false where there is none.
  bool take_less(const std::string& stage);
  /// The same where it was the host's memory that ran out, beside a GPU.
  bool take_less_of_host(const std::string& stage);

 private:
  template <class Call>
  void hand_out(const Call& call) {
    sink_failed_ = true;
    call();
    sink_failed_ = false;
  }
  std::vector<int64_t> more_than_now(const MemoryPlan& plan, const std::string& stage) const;
  bool adopt(MemoryPlan plan);
  void keep(int64_t layer, int64_t first, const at::Tensor& tokens);
  int64_t layers() const { return *kept_.rbegin() + 1; }  // that the trunk runs
  void open_heads();
  void restore();
  void save(int64_t layers);
  void dense(std::shared_ptr<const DptHead>& head, std::unique_ptr<PatchMaps>& maps, const char* stage,
             bool is_depth);
  std::array<PatchMaps*, 3> all_maps() const {
    return {depth_maps_.get(), point_maps_.get(), track_maps_.get()};
  }

  const Network& net_;
  const FrameProvider& frames_;
  MemoryRequest request_;
  MemoryPlan plan_;
  int plans_passed_;
  const Sink& sink_;
  const Observer& observer_;
  const std::set<int64_t> kept_;
  const KeepTokens keep_;
  std::shared_ptr<const DptHead> depth_, points_;
  std::shared_ptr<const TrackHead> tracks_;
  FrameTensor camera_tokens_;  // [S,2C], resident
  std::unique_ptr<PatchMaps> depth_maps_, point_maps_, track_maps_;
  std::optional<TrunkRun> trunk_;
  std::optional<Checkpoint> checkpoint_;
  double checkpoint_seconds_ = 0;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
  Overlap weights_overlap_, attention_overlap_;
  bool restored_ = false;
  bool sink_failed_ = false;
  int64_t dense_done_ = 0;  // frames of the dense head that runs
};

Vggt::Run::Run(const Network& net, const FrameProvider& frames, const MemoryRequest& request,
               const RunOptions& options, const Sink& sink, const Observer& observer)
    : net_(net),
      frames_(frames),
      request_(request),
      plan_(plan_memory(request, options.plans_passed)),
      plans_passed_(options.plans_passed),
      sink_(sink),
      observer_(observer),
      kept_(net.kept_layers()),
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

/// Lets go of the head and what it reads.
void Vggt::Run::dense(std::shared_ptr<const DptHead>& head, std::unique_ptr<PatchMaps>& maps,
                      const char* stage, bool is_depth) {
  if (!head) return;
  const int64_t S = frames_.frames;
  while (dense_done_ < S) {
    report_progress(observer_, stage, dense_done_, S);
    const int64_t count = std::min(plan_.schedule.dense_frames, S - dense_done_);
    const at::Tensor raw = head->forward(maps->take(dense_done_, count), frames_.height, frames_.width);
    const DenseOutput output = is_depth ? activate_depth(raw) : activate_points(raw);
    DensePrediction prediction;
    prediction.first_frame = dense_done_;
    (is_depth ? prediction.depth : prediction.world_points) = to_cpu(output.values);
    (is_depth ? prediction.depth_conf : prediction.world_points_conf) = to_cpu(output.confidence);
    const auto& take = is_depth ? sink_.depth : sink_.points;
    if (take) hand_out([&] { take(prediction); });
    dense_done_ += count;
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

namespace {

/// Memory that LibTorch keeps for later goes back to the device.
void free_reserve([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

}  // namespace

Vggt::Vggt(const Config& config, const TensorSource& source, const ModelOptions& options) {
  check_model_options(config, options);
  const Heads present = heads_in(source.shapes);
  const Heads& wanted = options.heads;
  check_shapes(expected_tensors(config, present), source.shapes);
  const auto need = [](bool want, bool have, const char* name) {
    if (want && !have) throw std::invalid_argument(std::string("the weights have no ") + name + " head");
  };
  need(wanted.camera, present.camera, "camera");
  need(wanted.depth, present.depth, "depth");
  need(wanted.points, present.points, "points");
  need(wanted.tracks, present.tracks, "tracks");
  if (wanted == Heads{}) throw std::invalid_argument("no head is on: nothing to compute");
  const c10::InferenceMode guard;
  Binder bind(&source, aggregator_kind(options.precision), options.device, options.weights_on_host);
  network_ = std::make_unique<Network>(bind, config, options);
}

Vggt::~Vggt() = default;
Vggt::Vggt(Vggt&&) noexcept = default;

const Config& Vggt::config() const {
  return network_->config;
}

RunReport Vggt::run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                    const Observer& observer) const {
  const ModelOptions& own = network_->options;
  return run(frames, query_points, sink, observer, {own.merge, own.budget, own.plans_passed});
}

RunReport Vggt::run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
                    const Observer& observer, const RunOptions& options) const {
  const Network& net = *network_;
  const int64_t patch = net.config.patch_size;
  if (frames.frames < 1 || frames.height < patch || frames.width < patch || frames.height % patch != 0 ||
      frames.width % patch != 0) {
    throw std::invalid_argument("frames: expected at least one, with sides that are multiples of " +
                                std::to_string(patch) + ", got " + std::to_string(frames.frames) + " of " +
                                std::to_string(frames.width) + "x" + std::to_string(frames.height));
  }
  TORCH_CHECK(!query_points.defined() || (query_points.dim() == 2 && query_points.size(1) == 2),
              "query_points: expected [Q,2], got ", query_points.sizes());
  const bool with_tracks = net.track_head && query_points.defined() && query_points.size(0) > 0;
  const int64_t min_side = TrackHead::min_frame_side(net.config);
  if (with_tracks && std::min(frames.height, frames.width) < min_side) {
    throw std::invalid_argument("the tracker needs frames of at least " + std::to_string(min_side) +
                                " pixels a side, got " + std::to_string(frames.width) + "x" +
                                std::to_string(frames.height));
  }
  const c10::InferenceMode guard;
  net.check_process();
  MemoryRequest request = memory_request(net.config, net.options);
  request.frames = frames.frames;
  request.height = frames.height;
  request.width = frames.width;
  request.query_points = with_tracks ? query_points.size(0) : 0;
  request.merge = options.merge;
  request.budget = options.budget;
  Run run(net, frames, request, options, sink, observer);
  const auto stage = [&](const char* name, const auto& work) {
    constexpr int kMostTries = 3;  // of one place by the smallest plan
    int64_t tried_at = -1;
    for (int tries = 1;;) {
      bool smaller = false;
      try {
        return work();
      } catch (const std::exception& error) {
        if (run.sink_failed() || !is_out_of_memory(error)) throw;
        free_reserve(net.options.device);
        smaller =
            request.gpu && is_out_of_host_memory(error) ? run.take_less_of_host(name) : run.take_less(name);
        // What has just gone back to the device may do, or others let go of memory.
        const bool same_place = !smaller && std::exchange(tried_at, run.stored()) == run.stored();
        tries = same_place ? tries + 1 : 1;
        if (tries >= kMostTries) throw;
      }
      free_reserve(net.options.device);
      report_warning(observer, name,
                     std::string(name) + ": out of memory; " +
                         (smaller ? "going on with a plan of " : "once more with the plan of ") +
                         plan_text(run.plan()));
    }
  };
  stage("aggregator", [&] { run.trunk(); });
  stage("camera_head", [&] { run.camera(); });
  stage("depth_head", [&] { run.depth(); });
  stage("point_head", [&] { run.points(); });
  stage("track_head", [&] { run.tracks(query_points); });
  return run.report();
}

MemoryRequest memory_request(const Config& config, const ModelOptions& options) {
  MemoryRequest request;
  request.config = config;
  request.heads = options.heads;
  request.tensors = expected_tensors(config, options.heads);
  request.precision = options.precision;
  request.attention = options.attention;
  request.frames_per_chunk = options.frames_per_chunk;
  request.merge = options.merge;
  request.weights_on_host = options.weights_on_host;
  request.budget = options.budget;
#ifdef VGGT_CUDA
  if (options.device.is_cuda()) request.gpu = cuda_device(numbered(options.device));
#endif
  return request;
}

TensorShapes expected_tensors(const Config& config, const Heads& heads) {
  ModelOptions options;
  options.heads = heads;
  Binder bind(nullptr, aggregator_kind(Precision::fp32), at::kCPU);
  const Vggt::Network network(bind, config, options);
  return bind.taken();
}

at::Tensor unproject(const at::Tensor& depth, const at::Tensor& extrinsic, const at::Tensor& intrinsic) {
  const int64_t F = depth.size(0), H = depth.size(1), W = depth.size(2);
  const auto scalar = [&](int row, int column) {
    return intrinsic.select(1, row).select(1, column).view({F, 1, 1});
  };
  const at::Tensor u = at::arange(W, depth.options()).view({1, 1, W}),
                   v = at::arange(H, depth.options()).view({1, H, 1});
  const at::Tensor x = (u - scalar(0, 2)) * depth / scalar(0, 0),
                   y = (v - scalar(1, 2)) * depth / scalar(1, 1);
  const at::Tensor in_camera = at::stack({x, y, depth}, 3).view({F, H * W, 3});
  const at::Tensor rotation = extrinsic.narrow(2, 0, 3);                    // [F,3,3] camera from world
  const at::Tensor translation = extrinsic.select(2, 3).unsqueeze(1);       // [F,1,3]
  return at::matmul(in_camera - translation, rotation).view({F, H, W, 3});  // rotationᵀ from the left
}

}  // namespace vggt
