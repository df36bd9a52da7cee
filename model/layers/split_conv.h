#pragma once
#include <ATen/ATen.h>

#include "model/layers/split_linear.h"

namespace vggt {

/// The weight of a convolution in the form that split products take, [out,k·k·in]. weight [out,in,k,k], fp32
/// on a GPU.
SplitWeight split_conv_weight(const at::Tensor& weight);

/// A convolution of stride 1 by split products: the products of a map's pixels with each of the weight's k·k
/// pixels, the map shifted by so much, summed up in one. Works in pieces of the map, of a row of pixels at
/// least, whose parts take `piece_bytes`. x [F,in,H,W], fp32, channels last -> [F,out,H',W'],
/// channels last. The weight is finite. Where a product has an infinity or a NaN it is NaN.
at::Tensor convolve_split(const at::Tensor& x, const SplitWeight& weight, int64_t kernel, int64_t padding,
                          int64_t piece_bytes);

}  // namespace vggt
