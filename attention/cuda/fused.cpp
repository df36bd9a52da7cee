#include "attention/cuda/fused.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "attention/result.h"

namespace vggt {
namespace {

struct Fused {
  at::Tensor out;  // [B,A,Nq,D']
  at::Tensor lse;  // [B,A,Nq rounded up] or [B,A,Nq,1]
};

Fused run(CudaKernel kernel, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
          bool want_lse) {
  if (kernel == CudaKernel::sdpa_cudnn) {
    auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt, want_lse,
                                                          /*dropout_p=*/0.0, /*is_causal=*/false,
                                                          /*return_debug_mask=*/false, scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  if (kernel == CudaKernel::sdpa_flash) {
    auto result = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, /*is_causal=*/false,
                                                          /*return_debug_mask=*/false, scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  auto result = at::_scaled_dot_product_efficient_attention(q, k, v, /*attn_bias=*/std::nullopt, want_lse,
                                                            /*dropout_p=*/0.0, /*is_causal=*/false, scale);
  return {std::get<0>(result), std::get<1>(result)};
}

/// lse [B,A,Nq] in fp32 from any kernel's.
at::Tensor trimmed_lse(const at::Tensor& lse, const at::Tensor& q) {
  const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2);
  return lse.reshape({batch, heads, -1}).narrow(2, 0, queries).to(at::kFloat).contiguous();
}

AttentionResult identity(const at::Tensor& q, AttentionWant want) {
  AttentionResult result = empty_result(q, want);
  for (at::Tensor* zero : {&result.out, &result.s, &result.w}) {
    if (zero->defined()) zero->zero_();
  }
  for (at::Tensor* low : {&result.lse, &result.m}) {
    if (low->defined()) low->fill_(-std::numeric_limits<double>::infinity());
  }
  return result;
}

/// A call with more batch entries than a grid has rows, `most` entries at a time.
AttentionResult in_parts(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const AttentionOptions& options, CudaKernel kernel, int64_t most) {
  const AttentionResult all = empty_result(q, options.want);
  for (int64_t first = 0; first < q.size(0); first += most) {
    const int64_t count = std::min(most, q.size(0) - first);
    copy_result(slice_result(all, 0, first, count),
                attention_fused(q.narrow(0, first, count), k.narrow(0, first, count),
                                v.narrow(0, first, count), options, kernel));
  }
  return all;
}

}  // namespace

AttentionResult attention_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionOptions& options, CudaKernel kernel) {
  constexpr int64_t kMostBatches = 32768;  // a grid has at most 65535 rows
  if (q.numel() == 0 || k.size(2) == 0) return identity(q, options.want);
  if (q.size(0) > kMostBatches) return in_parts(q, k, v, options, kernel, kMostBatches);
  const bool half = q.scalar_type() != at::kFloat;
  const bool want_lse = options.want != AttentionWant::output;
  const int64_t unit = half ? 8 : 4;  // 16 bytes
  const int64_t width = (q.size(3) + unit - 1) / unit * unit;
  const Fused fused = run(kernel, padded_rows(q, width), padded_rows(k, width), padded_rows(v, width),
                          options.scale, want_lse);
  AttentionResult result;
  const at::Tensor out = joinable(fused.out, q.size(3));
  if (options.want == AttentionWant::state) {
    result.m = trimmed_lse(fused.lse, q);
    result.s = at::ones_like(result.m);
    result.w = joinable(out.to(at::kFloat), q.size(3));
    return result;
  }
  result.out = out;
  if (want_lse) result.lse = trimmed_lse(fused.lse, q);
  return result;
}

}  // namespace vggt
