#include "attention/fused.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "attention/params.h"
#include "attention/result.h"

#ifdef VGGT_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

struct Fused {
  at::Tensor out, lse;  // [B,A,Nq,D'], with at least B·A·Nq numbers in [B,A,..]
};

/// Compute capability as major·10 + minor.
int capability_of(const at::Device& device) {
#ifdef VGGT_CUDA
  int major = 0, minor = 0;
  const cudaError_t first = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index());
  const cudaError_t second =
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index());
  TORCH_CHECK(first == cudaSuccess && second == cudaSuccess, "attention: cannot ask ", device,
              " for its compute capability");
  return 10 * major + minor;
#else
  TORCH_CHECK(false, "attention: this build has no CUDA, got a tensor on ", device);
#endif
}

/// x [B,A,N,D] with D filled up with zeros to a multiple of `unit` elements, in memory that 16-byte accesses
/// suit.
at::Tensor padded(const at::Tensor& x, int64_t unit) {
  const int64_t rest = x.size(3) % unit;
  if (rest != 0) return at::constant_pad_nd(x, {0, unit - rest});
  const bool aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 && x.stride(3) == 1 &&
                       x.stride(0) % unit == 0 && x.stride(1) % unit == 0 && x.stride(2) % unit == 0;
  return aligned ? x : x.clone(at::MemoryFormat::Contiguous);
}

Fused run(FusedKernel kernel, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
          bool want_lse) {
  if (kernel == FusedKernel::cudnn) {
    auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt, want_lse,
                                                          /*dropout_p=*/0.0, /*is_causal=*/false,
                                                          /*return_debug_mask=*/false, scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  if (kernel == FusedKernel::flash) {
    auto result = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, /*is_causal=*/false,
                                                          /*return_debug_mask=*/false, scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  auto result = at::_scaled_dot_product_efficient_attention(q, k, v, /*attn_bias=*/std::nullopt, want_lse,
                                                            /*dropout_p=*/0.0, /*is_causal=*/false, scale);
  return {std::get<0>(result), std::get<1>(result)};
}

/// out [B,A,Nq,D'] without its padding, laid out as [B,Nq,A,D].
at::Tensor joinable(const at::Tensor& out, int64_t dim) {
  if (out.size(3) == dim && out.transpose(1, 2).is_contiguous()) return out;
  at::Tensor copy = empty_joinable({out.size(0), out.size(1), out.size(2), dim}, out.options());
  copy.copy_(out.narrow(3, 0, dim));
  return copy;
}

/// lse [B,A,Nq] in fp32: some kernels round its length up, others append a dimension of 1.
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

/// More batch entries than a grid has rows, some at a time.
AttentionResult in_parts(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const AttentionOptions& options, int64_t most) {
  AttentionResult all = empty_result(q, options.want);
  for (int64_t first = 0; first < q.size(0); first += most) {
    const int64_t count = std::min(most, q.size(0) - first);
    const AttentionResult part = attention_fused(q.narrow(0, first, count), k.narrow(0, first, count),
                                                 v.narrow(0, first, count), options);
    auto place = [&](at::Tensor& whole, const at::Tensor& piece) {
      if (whole.defined()) whole.narrow(0, first, count).copy_(piece);
    };
    place(all.out, part.out);
    place(all.lse, part.lse);
    place(all.m, part.m);
    place(all.s, part.s);
    place(all.w, part.w);
  }
  return all;
}

}  // namespace

AttentionResult attention_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionOptions& options) {
  constexpr int64_t kMostBatches = 32768;  // a grid has at most 65535 rows
  if (q.numel() == 0 || k.size(2) == 0) return identity(q, options.want);
  if (q.size(0) > kMostBatches) return in_parts(q, k, v, options, kMostBatches);
  const bool half = q.scalar_type() != at::kFloat;
  const bool want_lse = options.want != AttentionWant::output;
  const FusedKernel kernel =
      choose_fused_kernel(half, q.size(3), q.size(2), k.size(2), capability_of(q.device()));
  const int64_t unit = half ? 8 : 4;  // 16 bytes
  const Fused fused = run(kernel, padded(q, unit), padded(k, unit), padded(v, unit), options.scale, want_lse);
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
