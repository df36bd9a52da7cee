#pragma once
#include <optional>
#include <string>

#include "attention/attention.h"
#include "model/layers/layers.h"
#include "model/layers/rope.h"

namespace vggt {

/// A pre-norm transformer block with LayerScale, as in DINOv2 and VGGT (vggt/layers/block.py):
/// x += ls1·attn(norm1(x)); x += ls2·mlp(norm2(x)).
class Block {
 public:
  struct Kind {
    int64_t dim, heads;
    double norm_eps;
    bool qk_norm;  // per-head LayerNorm on q and k, then rotation
    AttentionOptions attention = {};
  };

  Block(Binder& bind, const std::string& name, const Kind& kind);

  /// x [B,N,C] contiguous, state type; updated in place. rope: needed exactly when the kind has qk_norm.
  void forward_(at::Tensor& x, const Rope* rope = nullptr) const;

 private:
  struct QkNorm {
    LayerNorm q_norm, k_norm;
  };

  at::Tensor attend(const at::Tensor& x, const Rope* rope) const;  // [B,N,C] -> [B,N,C]
  void add_mlp_(at::Tensor& x) const;

  Kind kind_;
  LayerNorm norm1_, norm2_;
  Linear qkv_, proj_;
  std::optional<QkNorm> qk_norm_;
  Mlp mlp_;
  at::Tensor ls1_, ls2_;  // [C]
};

}  // namespace vggt
