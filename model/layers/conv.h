#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "model/layers/linear.h"
#include "model/state/binder.h"

namespace vggt {

/// at::conv2d, but whether cuDNN may compute fp32 in TF32 is this call's choice, not the process's.
/// x [F,in,H,W], weight [out,in,k,k], bias [out] or undefined -> [F,out,H',W'].
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                    int64_t padding, bool tf32);

/// A convolution as the product of unfolded windows and weights, in pieces of `piece_bytes`.
/// x [F,in,H,W] and weight [out,in,k,k], channels last; bias [out] or undefined -> [F,out,H',W'], channels
/// last.
at::Tensor convolve_as_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               int64_t stride, int64_t padding, int64_t piece_bytes);

/// A convolution on channels-last maps of its weight's type. The bias is of the state type: where a map is in
/// bf16, sums are made in fp32. Where fp32 split into fp16 pays, loading puts the parts of the weight in the
/// place of its values.
struct Conv2d {
  at::Tensor weight;              // [out,in,k,k]; undefined where there are parts or a product
  SplitWeight parts;              // where their memory is defined
  std::optional<Linear> product;  // of single pixels; it adds the bias
  at::Tensor bias;                // [out], state type, or undefined
  int64_t kernel, stride, padding;
  bool tf32;  // whether fp32 may be computed in TF32

  Conv2d(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
         int64_t padding = 0, bool has_bias = true);

  at::Tensor operator()(const at::Tensor& x) const;  // [F,in,H,W] -> [F,out,H',W']

  /// The convolution, where the bias is cheaper to add with what follows: [F,out,H',W'], and the bias that it
  /// lacks, or an undefined one.
  struct Unbiased {
    at::Tensor map, bias;
  };
  Unbiased before_bias(const at::Tensor& x) const;

 private:
  void split();
  at::Tensor with(const at::Tensor& x, const at::Tensor& bias) const;
};

/// A transposed convolution whose windows do not overlap: each pixel becomes `scale` × `scale` of them.
struct ConvTranspose2d {
  at::Tensor weight, bias;        // [channels,channels,scale,scale], [channels] of the state type
  std::optional<Linear> product;  // in the weight's place where split products pay: a pixel's window
  int64_t scale;
  bool tf32;  // whether fp32 may be computed in TF32

  ConvTranspose2d(Binder& bind, const std::string& name, int64_t channels, int64_t scale);

  at::Tensor operator()(const at::Tensor& x) const;  // [F,c,h,w] -> [F,c,scale·h,scale·w]
};

/// A convolution whose windows are the patches of a map, `size` × `size` pixels each.
struct PatchConv {
  at::Tensor weight, bias;        // [out,in,size,size], [out], operand type
  std::optional<Linear> product;  // in the weight's place where split products pay
  int64_t size;
  bool tf32;  // whether fp32 may be computed in TF32

  PatchConv(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t size);

  at::Tensor operator()(const at::Tensor& x) const;  // [F,in,H,W] -> [F,(H/size)(W/size),out]
};

}  // namespace vggt
