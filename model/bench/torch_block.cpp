#include "model/bench/torch_block.h"

namespace vggt {
namespace {

/// The first half of a head turns with the row, the second with the column: x, cosine, sine [...,D].
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const std::vector<at::Tensor> quarters = x.chunk(4, -1);
  const at::Tensor turned = at::cat({-quarters[1], quarters[0], -quarters[3], quarters[2]}, -1);
  return x * cosine + turned * sine;
}

}  // namespace

TorchBlock::Layer::Layer(Binder& bind, const std::string& name, int64_t in, int64_t out)
    : weight(bind.operand(name + ".weight", {out, in})), bias(bind.operand(name + ".bias", {out})) {}

at::Tensor TorchBlock::Layer::operator()(const at::Tensor& x) const {
  return at::linear(x.to(weight.scalar_type()), weight, bias);
}

TorchBlock::Norm::Norm(Binder& bind, const std::string& name, int64_t channels)
    : weight(bind.state(name + ".weight", {channels})), bias(bind.state(name + ".bias", {channels})) {}

at::Tensor TorchBlock::Norm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x.to(weight.scalar_type()), weight.sizes(), weight, bias, 1e-5);
}

TorchBlock::TorchBlock(Binder& bind, const std::string& name, int64_t dim, int64_t heads)
    : heads_(heads),
      norm1_(bind, name + ".norm1", dim),
      norm2_(bind, name + ".norm2", dim),
      q_norm_(bind, name + ".attn.q_norm", dim / heads),
      k_norm_(bind, name + ".attn.k_norm", dim / heads),
      qkv_(bind, name + ".attn.qkv", dim, 3 * dim),
      proj_(bind, name + ".attn.proj", dim, dim),
      fc1_(bind, name + ".mlp.fc1", dim, 4 * dim),
      fc2_(bind, name + ".mlp.fc2", 4 * dim, dim),
      ls1_(bind.state(name + ".ls1.gamma", {dim})),
      ls2_(bind.state(name + ".ls2.gamma", {dim})) {}

at::Tensor TorchBlock::angles(const Rope& rope, const at::Tensor& table, int64_t frames) {
  const auto whole = at::TensorOptions().dtype(at::kLong).device(table.device());
  const at::Tensor patch = at::arange(rope.tokens_per_frame, whole) - rope.special_tokens;  // [P]
  const at::Tensor row = (patch.div(rope.columns, "floor") + 1).clamp_min(0),
                   column = at::where(patch < 0, at::zeros_like(patch), patch.remainder(rope.columns) + 1);
  const at::Tensor of_row = table.index_select(0, row), of_column = table.index_select(0, column);  // [P,D/4]
  return at::cat({of_row, of_row, of_column, of_column}, 1).repeat({frames, 1});
}

at::Tensor TorchBlock::attend(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const {
  const int64_t B = x.size(0), N = x.size(1), D = x.size(2) / heads_;
  const at::Tensor qkv = qkv_(norm1_(x)).view({B, N, 3, heads_, D}).permute({2, 0, 3, 1, 4});  // [3,B,A,N,D]
  const at::Tensor v = qkv[2];
  const at::Tensor q = rotated(q_norm_(qkv[0]), cosine, sine).to(v.scalar_type()),
                   k = rotated(k_norm_(qkv[1]), cosine, sine).to(v.scalar_type());
  const at::Tensor mixed = at::scaled_dot_product_attention(q, k, v);  // [B,A,N,D]
  return proj_(mixed.transpose(1, 2).reshape({B, N, heads_ * D}));
}

at::Tensor TorchBlock::forward(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const {
  const at::Tensor mixed = x + attend(x, cosine, sine) * ls1_;
  return mixed + fc2_(at::gelu(fc1_(norm2_(mixed)))) * ls2_;
}

}  // namespace vggt
