#pragma once
// Products of bf16 or fp16 on Hopper's tensor cores, with what follows them done on the sums in fp32. Free of
// torch.

#include <cuda_runtime_api.h>

namespace vggt {

/// x·weightᵀ + bias, in one type and contiguous, x and weight aligned to 16 bytes; K and N multiples of 8.
struct HalfGemm {
  const void *x = nullptr, *weight = nullptr;  // [M,K], [N,K]
  const void* bias = nullptr;                  // [N], aligned to 4 bytes
  int M = 0, N = 0, K = 0;
  bool bf16 = false;
};

/// y [M,N] = GELU(x·weightᵀ + bias), exact GELU, of the same type, aligned to 8 bytes. Only where
/// sm90a_built(), as below.
cudaError_t gelu_gemm_sm90(const HalfGemm& gemm, void* y, cudaStream_t stream);

/// rows [M,N] += gamma·(x·weightᵀ + bias): rows, aligned to 8 bytes, and gamma [N] in fp32.
cudaError_t residual_gemm_sm90(const HalfGemm& gemm, const float* gamma, float* rows, cudaStream_t stream);

}  // namespace vggt
