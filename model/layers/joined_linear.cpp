#include "model/layers/joined_linear.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <climits>

#include "attention/cuda/cuda.h"
#include "attention/cuda/cuda_check.h"
#include "model/layers/alignment.h"
#include "model/layers/joined_gemm.h"

namespace vggt {

std::optional<JoinedRows> joined_rows(at::TensorList parts, int64_t multiple) {
  JoinedRows rows;
  const int64_t M = parts.front().size(0);
  if (!parts.front().is_cuda() || !cuda_device(parts.front().device()).wgmma || M >= INT_MAX / 2)
    return std::nullopt;
  rows.rows = static_cast<int>(M);
  for (const at::Tensor& part : parts) {
    const int64_t columns = part.size(1);
    TORCH_CHECK(part.size(0) == M && part.scalar_type() == parts.front().scalar_type() &&
                    part.device() == parts.front().device(),
                "linear: matrices side by side must have the same rows, type and device");
    if (columns == 0) continue;
    if (rows.parts == kMostJoined || !part.is_contiguous() || !is_aligned(part) || columns % multiple != 0)
      return std::nullopt;
    rows.data[rows.parts] = part.const_data_ptr();
    rows.begins[rows.parts + 1] = rows.begins[rows.parts] + static_cast<int>(columns);
    ++rows.parts;
  }
  return rows;
}

void joined_linear_out(at::Tensor& y, const JoinedRows& x, const at::Tensor& weight, const at::Tensor& bias) {
  const c10::cuda::CUDAGuard guard(y.device());
  TORCH_CHECK(x.begins[x.parts] == weight.size(1), "linear: expected ", weight.size(1), " columns, got ",
              x.begins[x.parts]);
  TORCH_CHECK(y.is_contiguous() && y.size(0) == x.rows && y.size(1) == weight.size(0),
              "linear: expected room for [", x.rows, ",", weight.size(0), "], contiguous, got ", y.sizes());
  if (x.rows == 0) return;
  const JoinedGemm gemm{x,
                        weight.const_data_ptr(),
                        bias.const_data_ptr(),
                        y.mutable_data_ptr(),
                        static_cast<int>(weight.size(0)),
                        weight.scalar_type() == at::kBFloat16};
  constexpr CudaCheck check{"linear"};
  check(joined_gemm_sm90(gemm, c10::cuda::getCurrentCUDAStream().stream()), "joined products");
}

}  // namespace vggt
