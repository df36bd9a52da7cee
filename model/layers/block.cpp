#include "model/layers/block.h"

#include <algorithm>

namespace vggt {
namespace {

// The MLP's hidden layer is four times as wide as the tokens: at 400 frames it would be the largest tensor of
// the run. Products of this many rows already run at full speed.
constexpr int64_t kMlpRows = 65536;

}  // namespace

Block::Block(Binder& bind, const std::string& name, const Kind& kind)
    : kind_(kind),
      norm1_(bind, name + ".norm1", kind.dim, kind.norm_eps),
      norm2_(bind, name + ".norm2", kind.dim, kind.norm_eps),
      qkv_(bind, name + ".attn.qkv", kind.dim, 3 * kind.dim),
      proj_(bind, name + ".attn.proj", kind.dim, kind.dim),
      mlp_(bind, name + ".mlp", kind.dim, 4 * kind.dim, kind.dim),
      ls1_(bind.state(name + ".ls1.gamma", {kind.dim})),
      ls2_(bind.state(name + ".ls2.gamma", {kind.dim})) {
  if (kind.qk_norm) {
    const int64_t head_dim = kind.dim / kind.heads;
    qk_norm_.emplace(QkNorm{LayerNorm(bind, name + ".attn.q_norm", head_dim),
                            LayerNorm(bind, name + ".attn.k_norm", head_dim)});
  }
}

at::Tensor Block::attend(const at::Tensor& x, const Rope* rope) const {
  const int64_t B = x.size(0), N = x.size(1), A = kind_.heads, D = kind_.dim / A;
  at::Tensor qkv = qkv_(norm1_(x)).view({B * N, 3, A, D});
  if (qk_norm_) {
    TORCH_CHECK(rope != nullptr, "Block: a block with q/k norm needs a rope");
    norm_rope_(qkv, qk_norm_->q_norm.weight, qk_norm_->q_norm.bias, qk_norm_->k_norm.weight,
               qk_norm_->k_norm.bias, qk_norm_->q_norm.eps, *rope);
  }
  const at::Tensor heads = qkv.view({B, N, 3, A, D}).permute({2, 0, 3, 1, 4});  // [3,B,A,N,D]
  const at::Tensor out =
      attention(heads.select(0, 0), heads.select(0, 1), heads.select(0, 2), kind_.attention)
          .out;                                                  // [B,A,N,D]
  return proj_(out.transpose(1, 2).reshape({B, N, kind_.dim}));  // [B,N,C]
}

void Block::add_mlp_(at::Tensor& x) const {
  at::Tensor rows = x.view({-1, kind_.dim});  // [B·N,C]
  for (int64_t first = 0; first < rows.size(0); first += kMlpRows) {
    at::Tensor part = rows.narrow(0, first, std::min(kMlpRows, rows.size(0) - first));
    part.addcmul_(mlp_(norm2_(part)), ls2_);
  }
}

void Block::forward_(at::Tensor& x, const Rope* rope) const {
  x.addcmul_(attend(x, rope), ls1_);
  add_mlp_(x);
}

}  // namespace vggt
