#include "model/layers/block.h"

#include <algorithm>
#include <utility>

#include "attention/attention.h"
#include "model/layers/row_passes.h"
#include "model/layers/segment_mean.h"
#include "model/layers/work_sizes.h"

namespace vggt {
namespace {

/// work(first, count) for so many rows, at most `most` at a time.
template <class Work>
void in_pieces(int64_t rows, int64_t most, const Work& work) {
  for (int64_t first = 0; first < rows; first += most) work(first, std::min(most, rows - first));
}

std::vector<at::Tensor> rows_of(at::TensorList matrices, int64_t first, int64_t count) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& matrix : matrices) rows.push_back(matrix.narrow(0, first, count));
  return rows;
}

}  // namespace

Block::Block(Binder& bind, const std::string& name, const BlockSpec& spec)
    : spec_(spec),
      norm1_(bind, name + ".norm1", spec.dim, spec.norm_eps),
      norm2_(bind, name + ".norm2", spec.dim, spec.norm_eps),
      qkv_(bind_qkv(bind, name + ".attn.qkv")),
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

/// A linear layer may put parts in its weight's place: what the weight tells of v is asked before.
Linear Block::bind_qkv(Binder& bind, const std::string& name) {
  const int64_t C = spec_.dim;
  const at::Tensor bias = bind.operand(name + ".bias", {3 * C}),
                   weight = bind.operand(name + ".weight", {3 * C, C});
  const bool may_split = weight.defined() && weight.is_cuda() && weight.scalar_type() == at::kFloat &&
                         !bind.kind().tf32_products;
  if (spec_.qk_norm && may_split)
    v_bounds_ =
        norm_product_bounds(norm1_, weight.narrow(0, 2 * C, C), bias.narrow(0, 2 * C, C), spec_.heads);
  return {weight, bias, bind.kind()};
}

int64_t Block::most_rows() const {
  return block_rows(spec_.dim, qkv_.bias.is_cuda());
}

void Block::project_rows(at::Tensor& out, const Linear& product, const at::Tensor& rows) const {
  const int64_t R = rows.size(0), most = std::min(R, most_rows());
  at::Tensor flat = out.view({R, product.bias.size(0)});
  const ProductRows room = product.room(most, rows);
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    ProductRows normed = room.first(count);
    at::Tensor part = flat.narrow(0, first, count);
    norm_rows(normed, rows.narrow(0, first, count), norm1_);
    product.write(part, normed);
  });
}

void Block::check_rope(const Rope* rope, int64_t tokens) const {
  TORCH_CHECK(rope != nullptr, "Block: a block with q/k norm needs a rope");
  TORCH_CHECK(tokens % rope->tokens_per_frame == 0, "Block: expected rows of whole frames, of ",
              rope->tokens_per_frame, " tokens each, got ", tokens);
}

/// x: some of q or k (part 0 or 1).
void Block::norm_rope_part_(const at::Tensor& x, int64_t part, const Rope* rope, const QkParts* parts,
                            int64_t first) const {
  check_rope(rope, x.size(0));
  const LayerNorm& norm = part == 0 ? qk_norm_->q_norm : qk_norm_->k_norm;
  std::optional<PartsPlace> place;
  if (parts) place.emplace(PartsPlace{*parts, part, first});
  norm_rope_(x, norm.weight, norm.bias, norm.eps, *rope, place);
}

std::optional<QkParts> Block::room_for_parts(int64_t sequences, int64_t tokens, const Rope* rope) const {
  if (!qk_norm_ || !rope || !v_bounds_.defined()) return std::nullopt;
  for (const LayerNorm* norm : {&qk_norm_->q_norm, &qk_norm_->k_norm}) {
    if (!writes_parts(norm->weight, norm->bias, *rope)) return std::nullopt;
  }
  std::optional<QkParts> room = vggt::room_for_parts(
      {sequences, spec_.heads, tokens, spec_.dim / spec_.heads}, qkv_.bias.options(), spec_.attention);
  if (room) room->bounds[2].copy_(v_bounds_.expand({sequences, spec_.heads}));
  return room;
}

void Block::project_into(at::Tensor& qkv, const at::Tensor& rows, const Rope* rope, const QkParts* parts,
                         int64_t first) const {
  const int64_t R = rows.size(0), A = spec_.heads, D = spec_.dim / A;
  TORCH_CHECK(qkv.sizes() == at::IntArrayRef({R, 3, A, D}) && qkv.is_contiguous(),
              "Block: expected contiguous room for ", at::IntArrayRef({R, 3, A, D}), ", got ", qkv.sizes());
  project_rows(qkv, qkv_, rows);
  if (!qk_norm_) return;
  for (const int64_t part : {0, 1}) norm_rope_part_(qkv.select(1, part), part, rope, parts, first);
}

void Block::project_part_into(at::Tensor& out, int64_t part, const at::Tensor& rows) const {
  const int64_t R = rows.size(0), A = spec_.heads, D = spec_.dim / A;
  TORCH_CHECK(part >= 0 && part < 3, "Block: expected part 0, 1 or 2 for q, k or v, got ", part);
  TORCH_CHECK(out.sizes() == at::IntArrayRef({R, A, D}) && out.is_contiguous(),
              "Block: expected contiguous room for ", at::IntArrayRef({R, A, D}), ", got ", out.sizes());
  project_rows(out, qkv_.outputs(part * spec_.dim, spec_.dim), rows);
}

void Block::project_heads_into(const std::vector<HeadsPlace>& places, const at::Tensor& rows,
                               const Rope* rope) const {
  const int64_t R = rows.size(0), D = spec_.dim / spec_.heads, most = std::min(R, most_rows());
  const ProductRows room = qkv_.room(most, rows);
  std::vector<Linear> products;
  for (const HeadsPlace& place : places)
    products.push_back(qkv_.outputs(place.part * spec_.dim + place.first * D, place.out.size(1) * D));
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    ProductRows normed = room.first(count);
    norm_rows(normed, rows.narrow(0, first, count), norm1_);
    for (size_t i = 0; i < places.size(); ++i) {
      at::Tensor part = places[i].out.view({R, -1}).narrow(0, first, count);
      products[i].write(part, normed);
    }
  });
  if (!rope || !qk_norm_) return;
  for (const HeadsPlace& place : places) {
    if (place.part < 2) norm_rope_part_(place.out, place.part, rope);
  }
}

void Block::merge_into(at::Tensor& means, int64_t part, at::Tensor& projected, const Rope* rope,
                       const at::Tensor& members, const at::Tensor& offsets) const {
  TORCH_CHECK(part == 0 || part == 1, "Block: expected part 0 or 1 for q or k, got ", part);
  if (qk_norm_) {
    check_rope(rope, projected.size(0));
    const LayerNorm& norm = part == 0 ? qk_norm_->q_norm : qk_norm_->k_norm;
    return norm_rope_mean_into(means, projected, norm.weight, norm.bias, norm.eps, *rope, members, offsets);
  }
  const int64_t width = projected.size(1) * projected.size(2);
  at::Tensor rows = means.view({means.size(0), width});  // [M,C]
  segment_mean_into(rows, projected.view({-1, width}), members, offsets);
}

void Block::norm_into(at::Tensor& normed, const at::Tensor& rows) const {
  in_pieces(rows.size(0), most_rows(), [&](int64_t first, int64_t count) {
    at::Tensor part = normed.narrow(0, first, count);
    norm_rows(part, rows.narrow(0, first, count), norm1_);
  });
}

at::Tensor Block::project_values(const at::Tensor& normed) const {
  const Linear values = qkv_.outputs(2 * spec_.dim, spec_.dim);
  at::Tensor out = at::empty_like(normed);  // [M,C]
  in_pieces(normed.size(0), most_rows(), [&](int64_t first, int64_t count) {
    at::Tensor part = out.narrow(0, first, count);
    values.write(part, normed.narrow(0, first, count));
  });
  return out.view({-1, spec_.heads, spec_.dim / spec_.heads});
}

at::Tensor Block::empty_qkv(const at::Tensor& rows) const {
  return at::empty({rows.size(0), 3, spec_.heads, spec_.dim / spec_.heads},
                   rows.options().dtype(operand_type()));
}

at::Tensor Block::project(const at::Tensor& rows, const Rope* rope) const {
  at::Tensor qkv = empty_qkv(rows);
  project_into(qkv, rows, rope);
  return qkv;
}

at::Tensor Block::attend(const at::Tensor& qkv, int64_t sequences, const QkParts* parts) const {
  return attend(qkv.select(1, 0), qkv.select(1, 1), qkv.select(1, 2), sequences, parts);
}

at::Tensor Block::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t sequences,
                         const QkParts* parts) const {
  const int64_t R = q.size(0), B = sequences;
  const auto heads = [&](const at::Tensor& x) {
    return x.unflatten(0, {B, R / B}).transpose(1, 2);  // [B,A,N,D]
  };
  AttentionOptions options = spec_.attention;
  options.parts = parts;
  const at::Tensor out = attention(heads(q), heads(k), heads(v), options).out;  // [B,A,N,D]
  return out.transpose(1, 2).reshape({R, q.size(1) * q.size(2)});               // [B·N,C]
}

template <class Work>
void Block::update_(at::Tensor& rows, const Work& work) const {
  const int64_t R = rows.size(0), most = std::min(R, most_rows());
  const at::Tensor memory = at::empty({most, spec_.dim}, rows.options());
  in_pieces(R, most, [&](int64_t first, int64_t count) {
    at::Tensor part = rows.narrow(0, first, count), sum = memory.narrow(0, 0, count);  // [count,C]
    work(part, sum, first);
  });
}

void Block::add_and_mlp_(at::Tensor& rows, const Addition& projected, at::Tensor& memory,
                         at::Tensor& sum) const {
  ProductRows normed = mlp_.fc1.splits() ? mlp_.fc1.room(rows.size(0), rows) : ProductRows{memory, {}};
  add_norm_rows(normed, sum, rows, projected, norm2_);
  mlp_.write(memory, std::move(normed));
  add_rows(rows, sum, {memory, ls2_});
}

void Block::finish_(at::Tensor& rows, at::TensorList mixed) const {
  const at::Tensor memory =
      at::empty({std::min(rows.size(0), most_rows()), spec_.dim}, mixed.front().options());
  update_(rows, [&](at::Tensor& part, at::Tensor& sum, int64_t first) {
    at::Tensor projected = memory.narrow(0, 0, part.size(0));  // [count,C]
    proj_.write_joined(projected, rows_of(mixed, first, part.size(0)));
    add_and_mlp_(part, {projected, ls1_}, projected, sum);
  });
}

at::ScalarType Block::metric_type() const {
  // In bf16 and fp16 the products of the metric run on tensor cores, as those of attention do.
  const bool half = qkv_.bias.is_cuda() && qkv_.bias.element_size() == 2;
  return half ? qkv_.bias.scalar_type() : norm1_.weight.scalar_type();
}

void Block::metric_into(at::Tensor& metric, const at::Tensor& rows, const at::Tensor* row_of) const {
  in_pieces(metric.size(0), most_rows(), [&](int64_t first, int64_t count) {
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

at::Tensor Block::project_out(at::TensorList mixed) const {
  const int64_t M = mixed.front().size(0);
  at::Tensor projected = at::empty({M, spec_.dim}, mixed.front().options());
  in_pieces(M, most_rows(), [&](int64_t first, int64_t count) {
    at::Tensor part = projected.narrow(0, first, count);
    proj_.write_joined(part, rows_of(mixed, first, count));
  });
  return projected;
}

void Block::finish_projected_(at::Tensor& rows, const at::Tensor& projected, const at::Tensor& row_of) const {
  const at::Tensor memory = at::empty({std::min(rows.size(0), most_rows()), spec_.dim}, projected.options());
  update_(rows, [&](at::Tensor& part, at::Tensor& sum, int64_t first) {
    at::Tensor normed = memory.narrow(0, 0, part.size(0));  // [count,C]
    const at::Tensor from = row_of.narrow(0, first, part.size(0));
    add_and_mlp_(part, {projected, ls1_, &from}, normed, sum);
  });
}

void Block::forward_(at::Tensor& x, const Rope* rope) const {
  at::Tensor rows = x.view({-1, spec_.dim});  // [B·N,C]
  // The projections are gone before the rest begins: they end with this function.
  const auto mix = [&] {
    const std::optional<QkParts> room = room_for_parts(x.size(0), x.size(1), rope);
    const QkParts* parts = room ? &*room : nullptr;
    at::Tensor qkv = empty_qkv(rows);
    project_into(qkv, rows, rope, parts);
    return attend(qkv, x.size(0), parts);
  };
  finish_(rows, mix());
}

}  // namespace vggt
