#include "model/layers/block.h"

#include <algorithm>

#include "attention/attention.h"
#include "model/layers/work_sizes.h"

namespace vggt {
namespace {

/// work(first, count) for so many rows, at most `most` at a time.
template <class Work>
void in_pieces(int64_t rows, int64_t most, const Work& work) {
  for (int64_t first = 0; first < rows; first += most) work(first, std::min(most, rows - first));
}

}  // namespace

Block::Block(Binder& bind, const std::string& name, const BlockSpec& spec)
    : spec_(spec),
      norm1_(bind, name + ".norm1", spec.dim, spec.norm_eps),
      norm2_(bind, name + ".norm2", spec.dim, spec.norm_eps),
      qkv_(bind, name + ".attn.qkv", spec.dim, 3 * spec.dim),
      proj_(bind, name + ".attn.proj", spec.dim, spec.dim),
      mlp_(bind, name + ".mlp", spec.dim, 4 * spec.dim, spec.dim),
      ls1_(bind.state(name + ".ls1.gamma", {spec.dim})),
      ls2_(bind.state(name + ".ls2.gamma", {spec.dim})) {
  if (spec.qk_norm) {
    const int64_t head_dim = spec.dim / spec.heads;
    qk_norm_.emplace(QkNorm{LayerNorm(bind, name + ".attn.q_norm", head_dim),
                            LayerNorm(bind, name + ".attn.k_norm", head_dim)});
  }
}

at::Tensor Block::project(const at::Tensor& rows, const Rope* rope) const {
  const int64_t R = rows.size(0), A = spec_.heads, D = spec_.dim / A;
  at::Tensor qkv = at::empty({R, 3 * spec_.dim}, rows.options().dtype(qkv_.bias.scalar_type()));
  in_pieces(R, block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    at::Tensor part = qkv.narrow(0, first, count);  // [count,3C]
    qkv_.write(part, norm1_(rows.narrow(0, first, count)));
  });
  qkv = qkv.view({R, 3, A, D});
  if (qk_norm_) {
    TORCH_CHECK(rope != nullptr, "Block: a block with q/k norm needs a rope");
    TORCH_CHECK(R % rope->tokens_per_frame == 0, "Block: expected rows of whole frames, of ",
                rope->tokens_per_frame, " tokens each, got ", R);
    norm_rope_(qkv, qk_norm_->q_norm.weight, qk_norm_->q_norm.bias, qk_norm_->k_norm.weight,
               qk_norm_->k_norm.bias, qk_norm_->q_norm.eps, *rope);
  }
  return qkv;
}

at::Tensor Block::attend(const at::Tensor& qkv, int64_t sequences) const {
  const int64_t R = qkv.size(0), B = sequences, A = spec_.heads, D = spec_.dim / A;
  const at::Tensor heads = qkv.view({B, R / B, 3, A, D}).permute({2, 0, 3, 1, 4});  // [3,B,A,N,D]
  const at::Tensor out =
      attention(heads.select(0, 0), heads.select(0, 1), heads.select(0, 2), spec_.attention)
          .out;                                        // [B,A,N,D]
  return out.transpose(1, 2).reshape({R, spec_.dim});  // [B·N,C]
}

void Block::finish_(at::Tensor& rows, const at::Tensor& mixed) const {
  in_pieces(rows.size(0), block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    at::Tensor part = rows.narrow(0, first, count);  // [count,C]
    part.addcmul_(proj_(mixed.narrow(0, first, count)), ls1_);
    part.addcmul_(mlp_(norm2_(part)), ls2_);
  });
}

at::Tensor Block::metric(const at::Tensor& rows) const {
  constexpr double kTiny = 1e-12;  // a token of zeros stays one
  // In bf16 and fp16 the products of the metric run on tensor cores, as those of attention do.
  const bool half = rows.is_cuda() && qkv_.bias.element_size() == 2;
  at::Tensor metric = at::empty(rows.sizes(), half ? qkv_.bias.options() : rows.options());
  in_pieces(rows.size(0), block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    const at::Tensor normed = norm1_(rows.narrow(0, first, count));         // [count,C]
    const at::Tensor length = normed.norm(2, {1}, true).clamp_min_(kTiny);  // [count,1]
    at::Tensor part = metric.narrow(0, first, count);
    at::div_out(part, normed, length);
  });
  return metric;
}

at::Tensor Block::project_out(const at::Tensor& mixed) const {
  at::Tensor projected = at::empty_like(mixed);  // [M,C]
  in_pieces(mixed.size(0), block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    at::Tensor part = projected.narrow(0, first, count);
    proj_.write(part, mixed.narrow(0, first, count));
  });
  return projected;
}

void Block::finish_projected_(at::Tensor& rows, const at::Tensor& projected, const at::Tensor& row_of) const {
  in_pieces(rows.size(0), block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    at::Tensor part = rows.narrow(0, first, count);  // [count,C]
    part.addcmul_(projected.index_select(0, row_of.narrow(0, first, count)), ls1_);
    part.addcmul_(mlp_(norm2_(part)), ls2_);
  });
}

void Block::forward_(at::Tensor& x, const Rope* rope) const {
  at::Tensor rows = x.view({-1, spec_.dim});  // [B·N,C]
  // The projections are gone before the rest begins: the temporary ends with this statement.
  const at::Tensor mixed = attend(project(rows, rope), x.size(0));
  finish_(rows, mixed);
}

}  // namespace vggt
