#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether oneDNN computes x·weightᵀ faster than what at::linear takes, on this processor: x [M,in] and weight
/// [out,in] on the CPU. By a rule, so that runs repeat bit for bit. LibTorch takes MKL for fp32, whose fast
/// kernels are for Intel's processors; on an AMD EPYC (Zen 5) oneDNN is 2 to 3.5 times as fast from 128 rows on.
bool onednn_pays(const at::Tensor& x, const at::Tensor& weight);

/// x·weightᵀ + bias by oneDNN, in fp32: x [M,in], weight [out,in], bias [out] -> [M,out].
at::Tensor linear_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace vggt
