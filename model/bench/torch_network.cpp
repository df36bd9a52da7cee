#include "model/bench/torch_network.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "model/heads/camera_head.h"
#include "model/network.h"

namespace vggt {
namespace {

constexpr int64_t kDenseFrames = 8;  // upstream's frames_chunk_size

at::Tensor to_cpu(const at::Tensor& x) {
  return x.to(at::kCPU).contiguous();
}

}  // namespace

TorchNetwork::TorchNetwork(const Config& config, const TensorSource& source, const ModelOptions& options)
    : config_(config), options_(options) {
  TORCH_CHECK(!options.heads.tracks, "TorchNetwork: there is no tracker");
  const c10::InferenceMode guard;
  Binder bind(&source, head_kind(options.precision), options.device);
  if (options.heads.camera) camera_head_.emplace(bind, config);
  bind.set_kind(dense_head_kind(options));
  if (options.heads.depth)
    depth_head_.emplace(bind, config, DptSpec{"depth_head", config.dpt_features, 2, 1, true});
  if (options.heads.points)
    point_head_.emplace(bind, config, DptSpec{"point_head", config.dpt_features, 4, 1, true});
  bind.set_kind(aggregator_kind(options.precision));
  trunk_.emplace(bind, config);
}

void TorchNetwork::run(const FrameProvider& frames, const Sink& sink, const Observer& observer) const {
  const c10::InferenceMode guard;
  const at::Tensor pixels = frames.get(0, frames.frames).to(options_.device);  // [S,3,H,W]
  const at::Tensor values = pixels.to(aggregator_kind(options_.precision).state);
  Kept kept;
  at::Tensor camera_tokens;  // [S,2C]
  trunk_->run(
      pixels.scalar_type() == at::kByte ? values / 255 : values, kept_layers(config_, options_.heads),
      [&](int64_t layer, const at::Tensor& tokens) {
        if (layer == config_.depth - 1) camera_tokens = tokens.select(1, 0);
        kept.emplace_back(layer, tokens);
      },
      observer);
  if (camera_head_) {
    const at::Tensor pose = to_cpu(camera_head_->forward(camera_tokens));
    const CameraMatrices matrices = camera_matrices(pose, frames.height, frames.width);
    report_progress(observer, "camera_head", 1, 1);
    if (sink.cameras) sink.cameras({pose, matrices.extrinsic, matrices.intrinsic});
  }
  if (depth_head_) dense(*depth_head_, kept, frames, "depth_head", true, sink, observer);
  if (point_head_) dense(*point_head_, kept, frames, "point_head", false, sink, observer);
}

void TorchNetwork::dense(const TorchDptHead& head, const Kept& kept, const FrameProvider& frames,
                         const char* stage, bool is_depth, const Sink& sink, const Observer& observer) const {
  const auto& take = is_depth ? sink.depth : sink.points;
  for (int64_t first = 0; first < frames.frames; first += kDenseFrames) {
    report_progress(observer, stage, first, frames.frames);
    const int64_t count = std::min(kDenseFrames, frames.frames - first);
    std::array<at::Tensor, 4> tokens;  // [F,P,2C]
    for (std::size_t level = 0; level < 4; ++level) {
      const auto layer =
          std::ranges::find(kept, config_.intermediate_layers[level], &Kept::value_type::first);
      tokens[level] = layer->second.narrow(0, first, count);
    }
    const at::Tensor raw = head.forward(tokens, frames.height, frames.width);
    const DenseOutput output = is_depth ? activate_depth(raw) : activate_points(raw);
    DensePrediction prediction;
    prediction.first_frame = first;
    (is_depth ? prediction.depth : prediction.world_points) = to_cpu(output.values);
    (is_depth ? prediction.depth_conf : prediction.world_points_conf) = to_cpu(output.confidence);
    if (take) take(prediction);
  }
  report_progress(observer, stage, frames.frames, frames.frames);
}

int64_t torch_network_bytes(const Config& config, const ModelOptions& options, const FrameProvider& frames) {
  const auto element = [](at::ScalarType type) { return static_cast<int64_t>(c10::elementSize(type)); };
  const ComputeKind trunk = aggregator_kind(options.precision);
  const int64_t state = element(trunk.state), operand = element(trunk.operand),
                P = config.special_tokens() +
                    (frames.height / config.patch_size) * (frames.width / config.patch_size),
                N = frames.frames * P,
                layers = static_cast<int64_t>(kept_layers(config, options.heads).size());
  const int64_t kept = N * config.embed_dim * 2 * state * layers;
  // A block's second half at its end: x, both sums, norm and product, the hidden layer before and after GELU,
  // and what casts leave. Beside it the angles and the pixels.
  const int64_t block = N * config.embed_dim * (5 * state + 10 * operand) +
                        2 * N * (config.embed_dim / config.num_heads) * state +
                        2 * frames.frames * 3 * frames.height * frames.width * state;
  const bool has_dense = options.heads.depth || options.heads.points;
  // At its end a dense head has maps of the frames' size: of half the features twice, what LibTorch makes of
  // them for the convolution, and the last channels' two; and the maps before them.
  const int64_t dense = !has_dense ? 0
                                   : std::min(kDenseFrames, frames.frames) * frames.height * frames.width *
                                         (2 * config.dpt_features + 128) * element(trunk.state);
  return kept + std::max(block, dense);
}

}  // namespace vggt
