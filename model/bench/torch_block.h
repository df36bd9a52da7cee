#pragma once
#include <ATen/ATen.h>

#include <string>

#include "model/layers/rope.h"
#include "model/state/binder.h"

namespace vggt {

/// A block of VGGT as PyTorch computes it, of LibTorch's operations alone: what our Block is measured beside.
/// With operands in bf16 or fp16 it does what autocast does: norms, rotation and residual stay in fp32.
class TorchBlock {
 public:
  /// Binds the tensors of Block with q/k norm; each is loaded anew.
  TorchBlock(Binder& bind, const std::string& name, int64_t dim, int64_t heads);

  /// Cosines or sines [S·P,D] of the tokens of so many frames, from a table of Rope.
  static at::Tensor angles(const Rope& rope, const at::Tensor& table, int64_t frames);

  /// x [B,N,C], state type -> the same; cosine and sine [N,D] of angles().
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const;

 private:
  struct Layer {
    at::Tensor weight, bias;
    Layer(Binder& bind, const std::string& name, int64_t in, int64_t out);
    at::Tensor operator()(const at::Tensor& x) const;
  };
  struct Norm {
    at::Tensor weight, bias;
    Norm(Binder& bind, const std::string& name, int64_t channels);
    at::Tensor operator()(const at::Tensor& x) const;  // in the state type
  };

  at::Tensor attend(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const;

  int64_t heads_;
  Norm norm1_, norm2_, q_norm_, k_norm_;
  Layer qkv_, proj_, fc1_, fc2_;
  at::Tensor ls1_, ls2_;  // [C]
};

}  // namespace vggt
