#include "model/bench/torch_block.h"

namespace vggt {
namespace {

/// The first half of a head turns with the row, the second with the column: x [...,D].
at::Tensor rotated(const at::Tensor& x, const TorchBlock::Angles& angles) {
  const std::vector<at::Tensor> quarters = x.chunk(4, -1);
  const at::Tensor turned = at::cat({-quarters[1], quarters[0], -quarters[3], quarters[2]}, -1);
  return x * angles.cosine + turned * angles.sine;
}

std::optional<TorchNorm> head_norm(Binder& bind, const std::string& name, const BlockSpec& spec) {
  if (!spec.qk_norm) return std::nullopt;
  return TorchNorm(bind, name, spec.dim / spec.heads);
}

}  // namespace

TorchBlock::TorchBlock(Binder& bind, const std::string& name, const BlockSpec& spec)
    : heads_(spec.heads),
      norm1_(bind, name + ".norm1", spec.dim, spec.norm_eps),
      norm2_(bind, name + ".norm2", spec.dim, spec.norm_eps),
      q_norm_(head_norm(bind, name + ".attn.q_norm", spec)),
      k_norm_(head_norm(bind, name + ".attn.k_norm", spec)),
      qkv_(bind, name + ".attn.qkv", spec.dim, 3 * spec.dim),
      proj_(bind, name + ".attn.proj", spec.dim, spec.dim),
      mlp_(bind, name + ".mlp", spec.dim, 4 * spec.dim, spec.dim),
      ls1_(bind.state(name + ".ls1.gamma", {spec.dim})),
      ls2_(bind.state(name + ".ls2.gamma", {spec.dim})) {}

TorchBlock::Angles TorchBlock::angles(const Rope& rope, int64_t frames) {
  const auto whole = at::TensorOptions().dtype(at::kLong).device(rope.cosine.device());
  const at::Tensor patch = at::arange(rope.tokens_per_frame, whole) - rope.special_tokens;  // [P]
  const at::Tensor row = (patch.div(rope.columns, "floor") + 1).clamp_min(0),
                   column = at::where(patch < 0, at::zeros_like(patch), patch.remainder(rope.columns) + 1);
  const auto of_tokens = [&](const at::Tensor& table) {  // [places,D/4] -> [frames·P,D]
    const at::Tensor of_row = table.index_select(0, row), of_column = table.index_select(0, column);
    return at::cat({of_row, of_row, of_column, of_column}, 1).repeat({frames, 1});
  };
  return {of_tokens(rope.cosine), of_tokens(rope.sine)};
}

at::Tensor TorchBlock::attend(const at::Tensor& x, const Angles* angles) const {
  TORCH_CHECK((angles != nullptr) == q_norm_.has_value(), "TorchBlock: q/k norm and rotation go together");
  const int64_t B = x.size(0), N = x.size(1), D = x.size(2) / heads_;
  const at::Tensor qkv = qkv_(norm1_(x)).view({B, N, 3, heads_, D}).permute({2, 0, 3, 1, 4});  // [3,B,A,N,D]
  at::Tensor q = qkv[0], k = qkv[1];                                                           // [B,A,N,D]
  const at::Tensor v = qkv[2];
  if (angles) {
    q = rotated((*q_norm_)(q), *angles).to(v.scalar_type());
    k = rotated((*k_norm_)(k), *angles).to(v.scalar_type());
  }
  const at::Tensor mixed = at::scaled_dot_product_attention(q, k, v);  // [B,A,N,D]
  return proj_(mixed.transpose(1, 2).reshape({B, N, heads_ * D}));
}

at::Tensor TorchBlock::forward(const at::Tensor& x, const Angles* angles) const {
  const at::Tensor mixed = x + attend(x, angles) * ls1_;
  return mixed + mlp_(norm2_(mixed)) * ls2_;
}

}  // namespace vggt
