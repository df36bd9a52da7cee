#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Sine and cosine of coordinates [n] along one axis, at frequencies base^(-2i/channels) -> [n,channels],
/// fp64, sines first (make_sincos_pos_embed in vggt/heads/utils.py).
at::Tensor axis_embedding(const at::Tensor& coordinates, int64_t channels, double base);

/// scale times an embedding, both first rounded to the type, fp32 or fp64.
at::Tensor rounded_and_scaled(const at::Tensor& embedding, double scale, at::ScalarType type);

}  // namespace vggt
