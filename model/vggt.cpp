#include "model/vggt.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif
#include "model/heads/camera_head.h"
#include "model/heads/dpt_head.h"
#include "model/heads/track_head.h"
#include "model/layers/linear.h"
#include "model/trunk/aggregator.h"

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

}  // namespace

struct Vggt::Network {
  Network(Binder& bind, const Config& config_, const ModelOptions& options_)
      : config(config_), options(options_) {
    const Heads& heads = options.heads;
    const ComputeKind trunk = aggregator_kind(options.precision), exact = head_kind(options.precision);
    const int64_t head_dim = config.embed_dim / std::min(config.num_heads, config.vit_num_heads),
                  camera_head_dim = 2 * config.embed_dim / config.camera_num_heads;
    bind.set_kind(trunk);
    aggregator.emplace(bind, config, attention_options(options, trunk.operand, head_dim));
    ComputeKind of_camera = exact;
    of_camera.few_rows = true;  // one a frame
    bind.set_kind(of_camera);
    if (heads.camera)
      camera_head.emplace(bind, config, attention_options(options, exact.operand, camera_head_dim));
    bind.set_kind(exact);
    if (heads.depth) depth_head.emplace(bind, config, depth_spec(config));
    if (heads.points) point_head.emplace(bind, config, point_spec(config));
    if (heads.tracks) track_head.emplace(bind, config);
  }

  std::vector<int64_t> picks() const;
  void check_process() const;
  std::array<at::Tensor, 4> slice(const TokenStore& store, int64_t first, int64_t count) const;
  void run_camera(const TokenStore& store, const FrameProvider& frames, const Sink& sink,
                  const Observer& observer) const;
  void run_dense(const DptHead& head, bool is_depth, const TokenStore& store, const FrameProvider& frames,
                 int64_t chunk, const Sink& sink, const Observer& observer) const;
  void run_tracks(TokenStore& store, const FrameProvider& frames, const at::Tensor& query_points,
                  const MemoryPlan& plan, const Sink& sink, const Observer& observer) const;

  Config config;
  ModelOptions options;
  std::optional<Aggregator> aggregator;
  std::optional<CameraHead> camera_head;
  std::optional<DptHead> depth_head, point_head;
  std::optional<TrackHead> track_head;
};

namespace {

at::Tensor to_cpu(const at::Tensor& x) {
  return x.to(at::kCPU).contiguous();
}

}  // namespace

std::vector<int64_t> Vggt::Network::picks() const {
  std::vector<int64_t> picks;
  if (depth_head || point_head || track_head) {
    picks.assign(config.intermediate_layers.begin(), config.intermediate_layers.end());
  }
  if (camera_head) picks.push_back(config.depth - 1);
  return picks;
}

/// Throws now what the heads would throw after the trunk has run.
void Vggt::Network::check_process() const {
  if (options.precision == Precision::fp64 || !options.device.is_cuda()) return;
  const at::Tensor none = at::empty({0}, at::device(options.device).dtype(at::kFloat));
  check_tf32_setting(none, options.precision == Precision::tf32);
}

/// Frames [first, first + count) of the four layers that the dense heads read, each [count,P,2C].
std::array<at::Tensor, 4> Vggt::Network::slice(const TokenStore& store, int64_t first, int64_t count) const {
  std::array<at::Tensor, 4> tokens;
  for (size_t i = 0; i < 4; ++i) tokens[i] = store.slice(config.intermediate_layers[i], first, count);
  return tokens;
}

void Vggt::Network::run_camera(const TokenStore& store, const FrameProvider& frames, const Sink& sink,
                               const Observer& observer) const {
  const at::Tensor tokens = store.camera_tokens(config.depth - 1);         // [S,2C]
  const at::Tensor pose = to_cpu(camera_head->forward(tokens, observer));  // [S,9]
  const CameraMatrices matrices = camera_matrices(pose, frames.height, frames.width);
  if (sink.cameras) sink.cameras({pose, matrices.extrinsic, matrices.intrinsic});
}

void Vggt::Network::run_dense(const DptHead& head, bool is_depth, const TokenStore& store,
                              const FrameProvider& frames, int64_t chunk, const Sink& sink,
                              const Observer& observer) const {
  const int64_t S = frames.frames;
  const std::string stage = is_depth ? "depth_head" : "point_head";
  for (int64_t first = 0; first < S; first += chunk) {
    report_progress(observer, stage, first, S);
    const int64_t count = std::min(chunk, S - first);
    const at::Tensor raw = head.forward(slice(store, first, count), frames.height, frames.width);
    const DenseOutput output = is_depth ? activate_depth(raw) : activate_points(raw);
    DensePrediction prediction;
    prediction.first_frame = first;
    (is_depth ? prediction.depth : prediction.world_points) = to_cpu(output.values);
    (is_depth ? prediction.depth_conf : prediction.world_points_conf) = to_cpu(output.confidence);
    const auto& take = is_depth ? sink.depth : sink.points;
    if (take) take(prediction);
  }
  report_progress(observer, stage, S, S);
}

/// Empties the store: the tracker is the last to read it.
void Vggt::Network::run_tracks(TokenStore& store, const FrameProvider& frames, const at::Tensor& query_points,
                               const MemoryPlan& plan, const Sink& sink, const Observer& observer) const {
  const int64_t S = frames.frames;
  FeaturePyramid pyramid = track_head->make_pyramid(S, plan.track);
  for (int64_t first = 0; first < S; first += plan.dense_frames) {
    report_progress(observer, "track_head", 0, TrackHead::kIterations);  // where an observer may stop the run
    const int64_t count = std::min(plan.dense_frames, S - first);
    track_head->add_frames(pyramid, first, slice(store, first, count), frames.height, frames.width);
  }
  store.release();
  const TrackHead::Tracks tracks = track_head->forward(pyramid, query_points, plan.track, observer);
  if (sink.tracks) sink.tracks({to_cpu(tracks.track), to_cpu(tracks.vis), to_cpu(tracks.conf)});
}

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
  Binder bind(&source, aggregator_kind(options.precision), options.device);
  network_ = std::make_unique<Network>(bind, config, options);
}

Vggt::~Vggt() = default;
Vggt::Vggt(Vggt&&) noexcept = default;

const Config& Vggt::config() const {
  return network_->config;
}

void Vggt::run(const FrameProvider& frames, const at::Tensor& query_points, const Sink& sink,
               const Observer& observer) const {
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
  if (with_tracks && std::min(frames.height, frames.width) < net.track_head->min_frame_side()) {
    throw std::invalid_argument("the tracker needs frames of at least " +
                                std::to_string(net.track_head->min_frame_side()) + " pixels a side, got " +
                                std::to_string(frames.width) + "x" + std::to_string(frames.height));
  }
  const c10::InferenceMode guard;
  net.check_process();
  MemoryRequest request = memory_request(net.config, net.options);
  request.frames = frames.frames;
  request.height = frames.height;
  request.width = frames.width;
  request.query_points = with_tracks ? query_points.size(0) : 0;
  const MemoryPlan plan = plan_memory(request);
  TokenStore store =
      net.aggregator->forward(frames, net.picks(), plan.embed_frames, net.options.merge, observer);
  if (net.camera_head) net.run_camera(store, frames, sink, observer);
  if (net.depth_head) net.run_dense(*net.depth_head, true, store, frames, plan.dense_frames, sink, observer);
  if (net.point_head) net.run_dense(*net.point_head, false, store, frames, plan.dense_frames, sink, observer);
  if (with_tracks) net.run_tracks(store, frames, query_points, plan, sink, observer);
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
