#include "model/layers/segment_mean.h"

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <climits>

#include "model/layers/row_passes.h"
#include "model/layers/segment_mean_params.h"
#endif

namespace vggt {
namespace {

#ifdef VGGT_CUDA
bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool kernel_takes(const at::Tensor& out, const at::Tensor& values) {
  constexpr int64_t kMostColumns = 1 << 22;  // of a grid's second dimension
  const auto type = values.scalar_type();
  const int64_t width = 16 / static_cast<int64_t>(values.element_size()), K = values.size(1);
  return values.is_cuda() && out.device() == values.device() &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) && values.size(0) < INT_MAX &&
         K % width == 0 && K <= kMostColumns && out.stride(1) == 1 && out.stride(0) % width == 0 &&
         is_aligned(out) && is_aligned(values);
}
#endif

void check(const at::Tensor& out, const at::Tensor& values, const at::Tensor& members,
           const at::Tensor& offsets) {
  TORCH_CHECK(values.dim() == 2 && values.is_contiguous() && out.dim() == 2 &&
                  out.size(1) == values.size(1) && out.size(0) + 1 == offsets.size(0) &&
                  out.scalar_type() == values.scalar_type(),
              "segment_mean_into: expected contiguous values [N,K], offsets [M+1] and room of the same type "
              "[M,K], got ",
              values.sizes(), ", ", offsets.sizes(), " and ", out.sizes());
  TORCH_CHECK(members.scalar_type() == at::kLong && offsets.scalar_type() == at::kLong &&
                  members.is_contiguous() && offsets.is_contiguous() && members.device() == values.device() &&
                  offsets.device() == values.device(),
              "segment_mean_into: expected contiguous members and offsets in int64 beside the values");
}

}  // namespace

void segment_mean_into(at::Tensor& out, const at::Tensor& values, const at::Tensor& members,
                       const at::Tensor& offsets) {
  check(out, values, members, offsets);
#ifdef VGGT_CUDA
  if (values.is_cuda() && out.device() != values.device()) {
    at::Tensor means = at::empty(out.sizes(), values.options());  // [M,K]
    segment_mean_into(means, values, members, offsets);
    out.copy_(means);
    return;
  }
  if (kernel_takes(out, values)) {
    SegmentMean means;
    means.values = values.const_data_ptr();
    means.members = members.const_data_ptr<int64_t>();
    means.offsets = offsets.const_data_ptr<int64_t>();
    means.out = out.mutable_data_ptr();
    means.rows = out.size(0);
    means.columns = out.size(1);
    means.out_stride = out.stride(0);
    const c10::cuda::CUDAGuard guard(values.device());
    return segment_mean_cuda(operand_type(values.scalar_type()), means,
                             c10::cuda::getCurrentCUDAStream().stream());
  }
#endif
  constexpr int64_t kMean = 1;
  out.copy_(std::get<0>(at::embedding_bag(values, members, offsets, false, kMean, false, {},
                                          /*include_last_offset=*/true)));
}

}  // namespace vggt
