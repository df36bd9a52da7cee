#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Whether oneDNN computes products of a weight [out,in] faster than what at::linear takes, on this processor.
/// few_rows: of some hundred rows at most. No call's size enters, so that a row's result is the same bit for
/// bit in whatever pieces rows come. LibTorch takes MKL for fp32, whose fast kernels are for Intel's
/// processors; on an AMD EPYC (Zen 5) oneDNN is 2 to 3.5 times as fast from 128 rows on, and brings the weight
/// into its own order in each call.
bool onednn_pays(const at::Tensor& weight, bool few_rows);

/// Rows that linear_onednn() computes at least: fewer ones are filled up.
constexpr int64_t kFewestRows = 128;

/// x·weightᵀ + bias by oneDNN, in fp32: x [...,in], weight [out,in], bias [out] -> [...,out].
at::Tensor linear_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace vggt
