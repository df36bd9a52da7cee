#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// What decides how a linear layer is computed.
struct LinearCall {
  int64_t rows = 0, in = 0, out = 0;
  bool fp32 = false, tf32 = false;  // the type of all operands; whether its products may be TF32
  bool aligned = false;             // the bias to 8 bytes
  bool wgmma = false;               // the GPU has Hopper's tensor cores, and this build code for them
};

/// Whether fp32 split into fp16 can compute this call, and is the faster way to.
bool split_pays(const LinearCall& call);

/// A weight in the form that split products take, in as much memory.
struct SplitWeight {
  at::Tensor memory;    // bytes; undefined before it is made
  bool finite = false;  // or it cannot be split
  int64_t in = 0;
};
SplitWeight split_weight(const at::Tensor& weight);  // [out,in], fp32 on a GPU

/// x·weightᵀ + bias on a GPU by split products, or of GELU(x). x [...,in] fp32, bias [out]; weight: finite.
/// For what split_pays() of, but for the number of rows.
at::Tensor linear_split(const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias,
                        bool gelu = false);

/// A layer's weight: the values, or in their place the parts, from the first call on that split products
/// take.
struct LinearWeight {
  at::Tensor values;  // [out,in], undefined where there are parts
  SplitWeight parts;
  bool cannot_split = false;  // found so; the values stay
};

/// x·weightᵀ + bias. x [...,in], weight, bias [out], all of one type -> [...,out].
at::Tensor linear(const at::Tensor& x, LinearWeight& weight, const at::Tensor& bias);

/// linear() of GELU(x), exact GELU; may overwrite x with GELU(x).
at::Tensor linear_of_gelu_(at::Tensor& x, LinearWeight& weight, const at::Tensor& bias);

}  // namespace vggt
