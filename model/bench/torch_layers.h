#pragma once
#include <ATen/ATen.h>

#include <string>

#include "model/state/binder.h"

namespace vggt {

// Layers of LibTorch's operations alone. They have the names and the tensors of ours; each casts what it is
// given to the type of its weights, as autocast does.

struct TorchLinear {
  at::Tensor weight, bias;  // [out,in], [out]

  TorchLinear(Binder& bind, const std::string& name, int64_t in, int64_t out);
  at::Tensor operator()(const at::Tensor& x) const;  // [...,in] -> [...,out]
};

/// fc2(GELU(fc1(x))), exact GELU.
struct TorchMlp {
  TorchLinear fc1, fc2;

  TorchMlp(Binder& bind, const std::string& name, int64_t in, int64_t hidden, int64_t out);
  at::Tensor operator()(const at::Tensor& x) const;
};

/// LayerNorm, in the state type.
struct TorchNorm {
  at::Tensor weight, bias;  // [channels]
  double eps;

  TorchNorm(Binder& bind, const std::string& name, int64_t channels, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x) const;
};

/// at::conv2d or at::conv_transpose2d. Whether cuDNN may compute fp32 in TF32 is the binder's choice, not the
/// process's.
struct TorchConv {
  struct Spec {
    int64_t in, out, kernel, stride = 1, padding = 0;
    bool transposed = false, has_bias = true;
  };
  Spec spec;
  at::Tensor weight, bias;  // [out,in,k,k], or [in,out,k,k] transposed; [out] or undefined
  bool tf32;

  TorchConv(Binder& bind, const std::string& name, const Spec& spec);
  at::Tensor operator()(const at::Tensor& x) const;  // [F,in,H,W] -> [F,out,H',W']
};

}  // namespace vggt
