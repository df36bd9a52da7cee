#include "model/network.h"

#include <algorithm>

#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif
#include "model/begin_heads.h"
#include "model/layers/linear.h"

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
  attention.or_libtorch = automatic;
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

}  // namespace

ComputeKind aggregator_kind(Precision precision) {
  const bool tf32 = precision == Precision::tf32;
  const bool half = precision == Precision::bf16 || precision == Precision::fp16;
  return {operand_type(precision), precision == Precision::fp64 ? at::kDouble : at::kFloat, tf32,
          tf32 || half};
}

ComputeKind head_kind(Precision precision) {
  ComputeKind kind = aggregator_kind(precision);
  kind.operand = kind.state;
  return kind;
}

ComputeKind dense_head_kind(const ModelOptions& options) {
  ComputeKind kind = head_kind(options.precision);
  if (options.heads_in_bf16) kind.operand = at::kBFloat16;
  return kind;
}

// The heads come first: they begin while the aggregator, which is larger, loads.
Vggt::Network::Network(Binder& bind, const Config& config_, const ModelOptions& options_)
    : config(config_), options(options_) {
  const Heads& heads = options.heads;
  const ComputeKind trunk = aggregator_kind(options.precision), exact = head_kind(options.precision);
  ComputeKind of_camera = exact;
  of_camera.few_rows = true;  // one a frame
  bind.set_kind(of_camera);
  const AttentionOptions of_frames =
      attention_options(options, exact.operand, 2 * config.embed_dim / config.camera_num_heads);
  if (heads.camera)
    camera_head.emplace(bind, [c = config, of_frames](Binder& b) { return CameraHead(b, c, of_frames); });
  if (options.begin_heads) begun_.push_back(begin_products(options, config, camera_head));
  const ComputeKind dense = dense_head_kind(options);
  bind.set_kind(dense);
  if (heads.depth) depth_head.emplace(bind, [c = config](Binder& b) { return DptHead(b, c, depth_spec(c)); });
  if (heads.points)
    point_head.emplace(bind, [c = config](Binder& b) { return DptHead(b, c, point_spec(c)); });
  if (options.begin_heads)
    begun_.push_back(begin_convolutions(options, config, depth_head ? depth_head : point_head));
  bind.set_kind(exact);
  if (heads.tracks)
    track_head.emplace(bind, [c = config, dense](Binder& b) { return TrackHead(b, c, dense); });
  bind.set_kind(trunk);
  aggregator.emplace(bind, config, attention_options(options, trunk.operand, widest_head(config)));
}

/// Throws now what the heads would throw after the trunk has run.
void Vggt::Network::check_process() const {
  if (options.precision == Precision::fp64 || !options.device.is_cuda()) return;
  const at::Tensor none = at::empty({0}, at::device(options.device).dtype(at::kFloat));
  check_tf32_setting(none, options.precision == Precision::tf32);
}

}  // namespace vggt
