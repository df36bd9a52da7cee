#pragma once
#include <ATen/ATen.h>

#include <string>

#include "model/layers/linear.h"
#include "model/state/binder.h"

// The small layers, named and laid out as in the checkpoints. All are for inference; each takes its input in
// any floating type and computes in the type that its weights were loaded in.
namespace vggt {

struct Linear {
  mutable LinearWeight weight;  // [out,in]
  at::Tensor bias;              // [out]

  Linear(Binder& bind, const std::string& name, int64_t in, int64_t out)
      : weight{bind.operand(name + ".weight", {out, in}), {}}, bias(bind.operand(name + ".bias", {out})) {}

  at::Tensor operator()(const at::Tensor& x) const {  // [...,in] -> [...,out]
    return linear(x.to(bias.scalar_type()), weight, bias);
  }
};

struct LayerNorm {
  at::Tensor weight, bias;  // [C]
  double eps;

  LayerNorm(Binder& bind, const std::string& name, int64_t channels, double epsilon = 1e-5)
      : weight(bind.state(name + ".weight", {channels})),
        bias(bind.state(name + ".bias", {channels})),
        eps(epsilon) {}

  at::Tensor operator()(const at::Tensor& x) const {  // [...,C] -> [...,C]
    return at::layer_norm(x.to(weight.scalar_type()), weight.sizes(), weight, bias, eps);
  }
};

/// fc2(GELU(fc1(x))), exact GELU.
struct Mlp {
  Linear fc1, fc2;

  Mlp(Binder& bind, const std::string& name, int64_t in, int64_t hidden, int64_t out)
      : fc1(bind, name + ".fc1", in, hidden), fc2(bind, name + ".fc2", hidden, out) {}

  at::Tensor operator()(const at::Tensor& x) const {
    at::Tensor hidden = fc1(x);
    return linear_of_gelu_(hidden, fc2.weight, fc2.bias);
  }
};

/// A convolution as the product of unfolded windows and weights, in pieces of `piece_bytes`.
/// x [F,in,H,W] and weight [out,in,k,k], channels last; bias [out] or undefined -> [F,out,H',W'], channels
/// last.
at::Tensor convolve_as_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               int64_t stride, int64_t padding, int64_t piece_bytes);

/// A convolution on channels-last maps.
struct Conv2d {
  at::Tensor weight;  // [out,in,k,k]
  at::Tensor bias;    // [out], or undefined
  int64_t stride, padding;

  Conv2d(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
         int64_t padding = 0, bool has_bias = true)
      : weight(bind.operand(name + ".weight", {out, in, kernel, kernel})),
        bias(has_bias ? bind.operand(name + ".bias", {out}) : at::Tensor()),
        stride(stride),
        padding(padding) {
    if (weight.defined()) weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  }

  at::Tensor operator()(const at::Tensor& x) const;  // [F,in,H,W] -> [F,out,H',W']
};

}  // namespace vggt
