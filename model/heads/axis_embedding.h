#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Sine and cosine of coordinates [n] along one axis, at frequencies base^(-2i/channels) -> [n,channels],
/// fp64, sines first (make_sincos_pos_embed in vggt/heads/utils.py).
at::Tensor axis_embedding(const at::Tensor& coordinates, int64_t channels, double base);

}  // namespace vggt
