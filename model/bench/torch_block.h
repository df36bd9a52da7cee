#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "model/bench/torch_layers.h"
#include "model/layers/block.h"
#include "model/layers/rope.h"

namespace vggt {

/// A block of VGGT as PyTorch computes it, of LibTorch's operations alone: what our Block is measured beside.
/// With operands in bf16 or fp16 it does what autocast does: norms, rotation and residual stay in fp32.
class TorchBlock {
 public:
  /// Binds the tensors of Block; each is loaded anew. The options of attention are not used.
  TorchBlock(Binder& bind, const std::string& name, const BlockSpec& spec);

  /// What q and k turn by, [N,D] each.
  struct Angles {
    at::Tensor cosine, sine;
  };
  /// Of the tokens of so many frames one after another, N = frames·P.
  static Angles angles(const Rope& rope, int64_t frames);

  /// x [B,N,C], state type -> the same. angles: needed exactly with q/k norm.
  at::Tensor forward(const at::Tensor& x, const Angles* angles = nullptr) const;

 private:
  at::Tensor attend(const at::Tensor& x, const Angles* angles) const;

  int64_t heads_;
  TorchNorm norm1_, norm2_;
  std::optional<TorchNorm> q_norm_, k_norm_;
  TorchLinear qkv_, proj_;
  TorchMlp mlp_;
  at::Tensor ls1_, ls2_;  // [C]
};

}  // namespace vggt
