#include "model/layers/half_linear.h"

#include <algorithm>
#include <climits>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "attention/cuda/cuda.h"
#include "model/layers/half_gemm.h"
#endif

namespace vggt {

#ifdef VGGT_CUDA
namespace {

void check(cudaError_t error) {
  TORCH_CHECK(error == cudaSuccess, "linear: products of halves: ", cudaGetErrorString(error));
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

HalfGemm gemm_of(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& bias) {
  const int64_t M = x.size(0), N = weight.size(0), K = weight.size(1);
  TORCH_CHECK(x.dim() == 2 && x.size(1) == K && bias.numel() == N && x.scalar_type() == bias.scalar_type(),
              "linear: expected x [M,", K, "] and a bias [", N, "] of its type, got ", x.sizes(), " and ",
              bias.sizes());
  TORCH_CHECK(
      out.sizes() == at::IntArrayRef({M, N}) && out.is_contiguous() && is_aligned(out) && is_aligned(bias),
      "linear: expected contiguous, aligned room for ", at::IntArrayRef({M, N}), ", got ", out.sizes());
  return {x.const_data_ptr(),  weight.const_data_ptr(), bias.const_data_ptr(),           static_cast<int>(M),
          static_cast<int>(N), static_cast<int>(K),     x.scalar_type() == at::kBFloat16};
}

}  // namespace

bool half_linear_pays(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = x.scalar_type();
  // Two tiles of 128×256 for each multiprocessor: with fewer, smaller tiles fill the GPU better.
  constexpr int64_t kFewest = int64_t{2} * 132 * 128 * 256;
  const int64_t in = weight.size(1), out = weight.size(0);
  return x.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) && type == weight.scalar_type() &&
         in % 8 == 0 && out % 8 == 0 && x.numel() / std::max<int64_t>(in, 1) * out >= kFewest &&
         x.size(0) < INT_MAX / 2 && x.is_contiguous() && weight.is_contiguous() && is_aligned(x) &&
         is_aligned(weight) && cuda_device(x.device()).wgmma;
}

void linear_gelu_half(at::Tensor& y, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(y.scalar_type() == x.scalar_type(), "linear: expected room of x's type, got ", y.scalar_type());
  check(gelu_gemm_sm90(gemm_of(y, x, weight, bias), y.mutable_data_ptr(),
                       c10::cuda::getCurrentCUDAStream().stream()));
}

void linear_residual_half(at::Tensor& rows, const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, const at::Tensor& gamma) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(gamma.numel() == weight.size(0) && gamma.is_contiguous() && is_aligned(gamma),
              "linear: expected gamma [", weight.size(0), "], got ", gamma.sizes());
  check(residual_gemm_sm90(gemm_of(rows, x, weight, bias), gamma.const_data_ptr<float>(),
                           rows.mutable_data_ptr<float>(), c10::cuda::getCurrentCUDAStream().stream()));
}
#else
bool half_linear_pays(const at::Tensor&, const at::Tensor&) {
  return false;
}
void linear_gelu_half(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
void linear_residual_half(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const at::Tensor&) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
#endif

}  // namespace vggt
