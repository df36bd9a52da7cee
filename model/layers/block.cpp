#include "model/layers/block.h"

#include <algorithm>

#include "attention/attention.h"
#include "model/layers/row_passes.h"
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

void Block::project_rows(at::Tensor& out, const Linear& product, const at::Tensor& rows) const {
  const int64_t R = rows.size(0), most = std::min(R, block_rows(spec_.dim));
  at::Tensor flat = out.view({R, product.bias.size(0)});
  const at::Tensor memory = at::empty({most, spec_.dim}, rows.options().dtype(operand_type()));
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    at::Tensor normed = memory.narrow(0, 0, count), part = flat.narrow(0, first, count);
    norm_rows(normed, rows.narrow(0, first, count), norm1_);
    product.write(part, normed);
  });
}

void Block::norm_rope_part_(const at::Tensor& x, const LayerNorm& norm, const Rope* rope) const {
  TORCH_CHECK(rope != nullptr, "Block: a block with q/k norm needs a rope");
  TORCH_CHECK(x.size(0) % rope->tokens_per_frame == 0, "Block: expected rows of whole frames, of ",
              rope->tokens_per_frame, " tokens each, got ", x.size(0));
  norm_rope_(x, norm.weight, norm.bias, norm.eps, *rope);
}

void Block::project_into(at::Tensor& qkv, const at::Tensor& rows, const Rope* rope) const {
  const int64_t R = rows.size(0), A = spec_.heads, D = spec_.dim / A;
  TORCH_CHECK(qkv.sizes() == at::IntArrayRef({R, 3, A, D}) && qkv.is_contiguous(),
              "Block: expected contiguous room for ", at::IntArrayRef({R, 3, A, D}), ", got ", qkv.sizes());
  project_rows(qkv, qkv_, rows);
  if (!qk_norm_) return;
  norm_rope_part_(qkv.select(1, 0), qk_norm_->q_norm, rope);
  norm_rope_part_(qkv.select(1, 1), qk_norm_->k_norm, rope);
}

void Block::project_part_into(at::Tensor& out, int64_t part, const at::Tensor& rows, const Rope* rope) const {
  const int64_t R = rows.size(0), A = spec_.heads, D = spec_.dim / A;
  TORCH_CHECK(part >= 0 && part < 3, "Block: expected part 0, 1 or 2 for q, k or v, got ", part);
  TORCH_CHECK(out.sizes() == at::IntArrayRef({R, A, D}) && out.is_contiguous(),
              "Block: expected contiguous room for ", at::IntArrayRef({R, A, D}), ", got ", out.sizes());
  project_rows(out, qkv_.outputs(part * spec_.dim, spec_.dim), rows);
  if (qk_norm_ && part < 2) norm_rope_part_(out, part == 0 ? qk_norm_->q_norm : qk_norm_->k_norm, rope);
}

at::Tensor Block::project(const at::Tensor& rows, const Rope* rope) const {
  at::Tensor qkv = at::empty({rows.size(0), 3, spec_.heads, spec_.dim / spec_.heads},
                             rows.options().dtype(qkv_.bias.scalar_type()));
  project_into(qkv, rows, rope);
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

void Block::add_and_mlp_(at::Tensor& rows, const Addition& projected, at::Tensor& memory) const {
  add_norm_rows_(memory, rows, projected, norm2_);
  mlp_.forward_(memory);
  add_rows_(rows, {memory, ls2_});
}

void Block::finish_(at::Tensor& rows, const at::Tensor& mixed) const {
  const int64_t R = rows.size(0), most = std::min(R, block_rows(spec_.dim));
  const at::Tensor memory = at::empty({most, spec_.dim}, mixed.options());
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    at::Tensor part = rows.narrow(0, first, count);     // [count,C]
    at::Tensor projected = memory.narrow(0, 0, count);  // [count,C]
    proj_.write(projected, mixed.narrow(0, first, count));
    add_and_mlp_(part, {projected, ls1_}, projected);
  });
}

at::ScalarType Block::metric_type() const {
  // In bf16 and fp16 the products of the metric run on tensor cores, as those of attention do.
  const bool half = qkv_.bias.is_cuda() && qkv_.bias.element_size() == 2;
  return half ? qkv_.bias.scalar_type() : norm1_.weight.scalar_type();
}

void Block::metric_into(at::Tensor& metric, const at::Tensor& rows, const at::Tensor* row_of) const {
  in_pieces(metric.size(0), block_rows(spec_.dim), [&](int64_t first, int64_t count) {
    at::Tensor part = metric.narrow(0, first, count);
    if (row_of) {
      const at::Tensor from = row_of->narrow(0, first, count);
      unit_norm_rows(part, rows, norm1_, &from);
    } else {
      unit_norm_rows(part, rows.narrow(0, first, count), norm1_);
    }
  });
}

at::Tensor Block::metric(const at::Tensor& rows) const {
  at::Tensor metric = at::empty(rows.sizes(), rows.options().dtype(metric_type()));
  metric_into(metric, rows);
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
  const int64_t R = rows.size(0), most = std::min(R, block_rows(spec_.dim));
  const at::Tensor memory = at::empty({most, spec_.dim}, projected.options());
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    at::Tensor part = rows.narrow(0, first, count), normed = memory.narrow(0, 0, count);  // [count,C]
    const at::Tensor from = row_of.narrow(0, first, count);
    add_and_mlp_(part, {projected, ls1_, &from}, normed);
  });
}

void Block::forward_(at::Tensor& x, const Rope* rope) const {
  at::Tensor rows = x.view({-1, spec_.dim});  // [B·N,C]
  // The projections are gone before the rest begins: the temporary ends with this statement.
  const at::Tensor mixed = attend(project(rows, rope), x.size(0));
  finish_(rows, mixed);
}

}  // namespace vggt
