#include "model/layers/linear.h"

#include <ATen/Context.h>

#include <algorithm>
#include <vector>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "attention/cuda/cuda.h"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"
#endif

namespace vggt {

bool split_pays(const LinearCall& call) {
  // Below these sizes there are too few tiles for the chip, and cuBLAS' own products are as exact.
  constexpr int64_t kFewestRows = 512, kFewestColumns = 256, kMostColumns = 4096;
  return call.fp32 && !call.tf32 && call.aligned && call.wgmma && call.rows >= kFewestRows &&
         call.in >= kFewestColumns && call.in <= kMostColumns && call.in % 8 == 0 &&
         call.out >= kFewestColumns && call.out % 8 == 0;
}

#ifdef VGGT_CUDA
namespace {

// Of the parts of x at one time. More rows than this give no more speed.
constexpr int64_t kPieceBytes = int64_t{256} << 20, kPieceRows = 256;

bool is_aligned(const at::Tensor& x, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % bytes == 0;
}

void check(cudaError_t error, const char* what) {
  TORCH_CHECK(error == cudaSuccess, "linear: ", what, ": ", cudaGetErrorString(error));
}

at::Tensor memory_for(int64_t rows, int64_t columns, const at::Tensor& like) {
  return at::empty({split_matrix_bytes(rows, columns)}, like.options().dtype(at::kByte));
}

/// x [...,in] as rows [M,in] that split_rows() takes, without a copy where it can be.
at::Tensor as_rows(const at::Tensor& x) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const bool fit = rows.stride(1) == 1 && rows.stride(0) % 4 == 0 && is_aligned(rows, 16);
  return fit ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

SplitWeight split_weight(const at::Tensor& weight) {
  const c10::cuda::CUDAGuard guard(weight.device());
  const at::Tensor rows = as_rows(weight);
  const int64_t out = rows.size(0), in = rows.size(1);
  SplitWeight split{memory_for(out, in, weight), false, in};
  const SplitMatrix matrix =
      split_matrix(static_cast<int>(out), static_cast<int>(in), split.memory.mutable_data_ptr());
  check(split_rows({rows.const_data_ptr<float>(), rows.stride(0)}, matrix,
                   c10::cuda::getCurrentCUDAStream().stream()),
        "splitting a weight");
  const at::Tensor exponents = at::from_blob(matrix.exponents, {out}, weight.options().dtype(at::kInt));
  split.finite = exponents.max().item<int>() < kNotFinite;
  return split;
}

at::Tensor linear_split(const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias, bool gelu) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor rows = as_rows(x);  // [M,in]
  const int64_t M = rows.size(0), in = rows.size(1), out = bias.size(0);
  TORCH_CHECK(in == weight.in, "linear: expected ", weight.in, " columns, got ", in);
  const int64_t whole = kPieceBytes / (split_width(in) * 2) / kPieceRows * kPieceRows;
  const int64_t piece = std::min(M, std::max(kPieceRows, whole));
  const at::Tensor memory = memory_for(piece, in, x);
  at::Tensor result = at::empty({M, out}, x.options());
  SplitGemm gemm;
  gemm.weight = split_matrix(static_cast<int>(out), static_cast<int>(in), weight.memory.mutable_data_ptr());
  gemm.bias = bias.const_data_ptr<float>();
  for (int64_t first = 0; first < M; first += piece) {
    const FloatRows from{rows.const_data_ptr<float>() + first * rows.stride(0), rows.stride(0), gelu};
    gemm.x = split_matrix(static_cast<int>(std::min(piece, M - first)), static_cast<int>(in),
                          memory.mutable_data_ptr());
    gemm.out = result.mutable_data_ptr<float>() + first * out;
    check(split_rows(from, gemm.x, stream), "splitting rows");
    check(launch_split_gemm_sm90(gemm, gemm.x.rows > kGemmTile ? 2 : 1, stream), "split products");
    check(repair_rows(from, gemm, stream), "rows that are not finite");
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  return result.view(shape);
}

namespace {

/// linear() by split products, or undefined where they do not pay.
at::Tensor try_split(const at::Tensor& x, LinearWeight& weight, const at::Tensor& bias, bool gelu) {
  if (!x.is_cuda() || x.scalar_type() != at::kFloat || weight.cannot_split) return {};
  if (weight.values.defined()) {
    const LinearCall call{x.numel() / std::max<int64_t>(1, x.size(-1)),
                          weight.values.size(1),
                          weight.values.size(0),
                          weight.values.scalar_type() == at::kFloat,
                          at::globalContext().allowTF32CuBLAS(),
                          is_aligned(bias, 8),
                          cuda_device(x.device()).wgmma};
    if (!split_pays(call)) return {};
    SplitWeight parts = split_weight(weight.values);
    weight.cannot_split = !parts.finite;
    if (!parts.finite) return {};
    weight = {{}, parts};
  }
  return linear_split(x, weight.parts, bias, gelu);
}

}  // namespace
#else
namespace {

at::Tensor try_split(const at::Tensor&, LinearWeight&, const at::Tensor&, bool) {
  return {};
}

}  // namespace
#endif

at::Tensor linear(const at::Tensor& x, LinearWeight& weight, const at::Tensor& bias) {
  const at::Tensor y = try_split(x, weight, bias, false);
  return y.defined() ? y : at::linear(x, weight.values, bias);
}

at::Tensor linear_of_gelu_(at::Tensor& x, LinearWeight& weight, const at::Tensor& bias) {
  const at::Tensor y = try_split(x, weight, bias, true);
  if (y.defined()) return y;
  at::gelu_(x);
  return at::linear(x, weight.values, bias);
}

}  // namespace vggt
