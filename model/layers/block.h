#pragma once
#include <optional>
#include <string>
#include <vector>

#include "attention/attention_types.h"
#include "model/layers/layer_norm.h"
#include "model/layers/mlp.h"
#include "model/layers/rope.h"
#include "model/layers/row_passes.h"

namespace vggt {

/// What tells a block's architecture, and how its attention is computed.
struct BlockSpec {
  int64_t dim, heads;
  double norm_eps;
  bool qk_norm;  // per-head LayerNorm on q and k, then rotation
  AttentionOptions attention = {};
};

/// A pre-norm transformer block with LayerScale, as in DINOv2 and VGGT (vggt/layers/block.py):
/// x += ls1·attn(norm1(x)); x += ls2·mlp(norm2(x)).
///
/// Its two halves project() and finish_() work row by row, so that rows may come in any pieces; only
/// attend(), between them, needs all tokens of a sequence. On merged tokens, project_part_into(),
/// merge_into() and project_values() take the first half's place, project_out() and finish_projected_() the
/// second's.
///
/// What updates rows in place writes them in one last step: after an exception they are as they were, where
/// there are no more than block_rows() of them.
class Block {
 public:
  Block(Binder& bind, const std::string& name, const BlockSpec& spec);

  /// x [B,N,C] contiguous, state type; updated in place: all three steps. rope: needed exactly with qk_norm.
  void forward_(at::Tensor& x, const Rope* rope = nullptr) const;

  /// q, k and v of tokens, normalised and rotated with qk_norm: rows [R,C] -> [R,3,A,D], operand
  /// type. With a rope the rows are those of whole frames.
  at::Tensor project(const at::Tensor& rows, const Rope* rope = nullptr) const;
  /// The same into qkv [R,3,A,D], contiguous. parts: where not null, q and k go there too, from token `first`
  /// of all B·N tokens on.
  void project_into(at::Tensor& qkv, const at::Tensor& rows, const Rope* rope, const QkParts* parts = nullptr,
                    int64_t first = 0) const;
  /// Room for the parts of q and k of B sequences of N tokens, with the bounds of v; nothing where attend()
  /// would not read them.
  std::optional<QkParts> room_for_parts(int64_t sequences, int64_t tokens, const Rope* rope) const;

  /// q, k or v (part 0, 1 or 2) alone, into out [R,A,D], contiguous, operand type: neither normalised nor
  /// rotated yet.
  void project_part_into(at::Tensor& out, int64_t part, const at::Tensor& rows) const;
  /// Some heads of q, k or v, and where they go.
  struct HeadsPlace {
    at::Tensor out;     // [R,heads,D], contiguous, operand type
    int64_t part = 0;   // 0, 1, 2: q, k, v
    int64_t first = 0;  // the first of the heads
  };
  /// Those of rows [R,C]. With a rope q and k are normalised and rotated, as project() does; without, they
  /// are as project_part_into() leaves them.
  void project_heads_into(const std::vector<HeadsPlace>& places, const at::Tensor& rows,
                          const Rope* rope) const;
  /// Row r of means [M,A,D], operand type = the mean of what q or k (part 0 or 1) is of the tokens
  /// members[offsets[r]], ..., members[offsets[r + 1] - 1]. projected [N,A,D], of all tokens, may be
  /// overwritten. means may be on the host. A may be some of the heads.
  void merge_into(at::Tensor& means, int64_t part, at::Tensor& projected, const Rope* rope,
                  const at::Tensor& members, const at::Tensor& offsets) const;
  /// norm1 of rows [R,C] into normed [R,C], contiguous, operand type.
  void norm_into(at::Tensor& normed, const at::Tensor& rows) const;
  /// v of normed tokens [M,C] -> [M,A,D]. Of a mean it is the mean of v.
  at::Tensor project_values(const at::Tensor& normed) const;

  /// Mixes the tokens of each of B sequences: qkv [B·N,3,A,D] -> [B·N,C], operand type. parts: of its q and
  /// k, or null.
  at::Tensor attend(const at::Tensor& qkv, int64_t sequences, const QkParts* parts = nullptr) const;
  /// The same of q, k and v [B·N,A',D] apart, of any number of heads -> [B·N,A'·D].
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t sequences,
                    const QkParts* parts = nullptr) const;

  /// What follows the mixing, added to the residual: rows [R,C], updated in place; mixed [R,C], or matrices
  /// [R,...] that have its columns side by side.
  void finish_(at::Tensor& rows, at::TensorList mixed) const;

  /// What tokens are compared by when they merge: norm1 of rows [R,C], each of unit length -> [R,C] of
  /// metric_type().
  at::Tensor metric(const at::Tensor& rows) const;
  /// The same into metric [R,C], contiguous; with row_of [R] int64, of these of rows [N,C].
  void metric_into(at::Tensor& metric, const at::Tensor& rows, const at::Tensor* row_of = nullptr) const;
  /// Of projections, and of what attention puts out.
  at::ScalarType operand_type() const { return qkv_.bias.scalar_type(); }
  /// bf16 or fp16 where these are a GPU's operands, else the state type.
  at::ScalarType metric_type() const;

  /// The product that ends the attention: mixed [M,C], as of finish_() -> [M,C], operand type.
  at::Tensor project_out(at::TensorList mixed) const;

  /// finish_() after project_out(): rows [R,C], updated in place; row i adds row row_of[i] of projected
  /// [M,C]. row_of [R] int64.
  void finish_projected_(at::Tensor& rows, const at::Tensor& projected, const at::Tensor& row_of) const;

 private:
  struct QkNorm {
    LayerNorm q_norm, k_norm;
  };

  int64_t most_rows() const;  // block_rows() of this block
  at::Tensor empty_qkv(const at::Tensor& rows) const;
  void project_rows(at::Tensor& out, const Linear& product, const at::Tensor& rows) const;
  /// finish_() from the projection on. memory [R,C], operand type: may be the projection's; sum [R,C], state
  /// type.
  void add_and_mlp_(at::Tensor& rows, const Addition& projected, at::Tensor& memory, at::Tensor& sum) const;
  /// work(rows, sum, first) for pieces of rows, and memory for their sums.
  template <class Work>
  void update_(at::Tensor& rows, const Work& work) const;
  void check_rope(const Rope* rope, int64_t tokens) const;
  Linear bind_qkv(Binder& bind, const std::string& name);
  void norm_rope_part_(const at::Tensor& x, int64_t part, const Rope* rope, const QkParts* parts = nullptr,
                       int64_t first = 0) const;

  BlockSpec spec_;
  LayerNorm norm1_, norm2_;
  at::Tensor v_bounds_;  // [A], where q and k may go to attention in parts
  Linear qkv_, proj_;
  std::optional<QkNorm> qk_norm_;
  Mlp mlp_;
  at::Tensor ls1_, ls2_;  // [C]
};

}  // namespace vggt
