#include "model/layers/map_passes.h"

#include "model/layers/conv.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <climits>

#include "model/layers/alignment.h"
#include "model/layers/map_kernels.h"
#include "model/layers/row_passes.h"
#endif

namespace vggt {
namespace {

#ifdef VGGT_CUDA
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

bool kernels_take(const at::Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         x.size(1) % 8 == 0 && x.is_contiguous(kChannelsLast) && is_aligned(x);
}

/// Undefined, or a map beside x.
bool fits(const at::Tensor& term, const at::Tensor& x) {
  return !term.defined() || (kernels_take(term) && term.sizes() == x.sizes() &&
                             term.scalar_type() == x.scalar_type() && term.device() == x.device());
}

/// Undefined, or fp32 numbers in a row.
bool is_table(const at::Tensor& term) {
  return !term.defined() ||
         (term.is_cuda() && term.scalar_type() == at::kFloat && term.is_contiguous() && is_aligned(term));
}

const float* numbers(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}
const void* start_of(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}
#endif

void check_terms(const at::Tensor& x, const at::Tensor& bias) {
  TORCH_CHECK(x.dim() == 4 && (!bias.defined() || bias.numel() == x.size(1)),
              "maps: expected [F,C,h,w], got ", x.sizes());
}

void add_bias_(at::Tensor& x, const at::Tensor& bias) {
  x.add_(bias.to(x.scalar_type()).view({1, -1, 1, 1}));
}

/// The places of a map [F,C,h,w], added to it.
void add_places_(at::Tensor& x, const PlaceTables& places) {
  const int64_t half = x.size(1) / 2;
  x.narrow(1, 0, half).add_(places.along_x.to(x.scalar_type()).t().unsqueeze(1));     // [C/2,1,w]
  x.narrow(1, half, half).add_(places.along_y.to(x.scalar_type()).t().unsqueeze(2));  // [C/2,h,1]
}

}  // namespace

void add_to_map_(at::Tensor& x, const MapTerms& terms) {
  check_terms(x, terms.bias);
#ifdef VGGT_CUDA
  if (kernels_take(x) && fits(terms.first, x) && fits(terms.second, x) && is_table(terms.bias)) {
    MapSum sum;
    sum.x = x.mutable_data_ptr();
    sum.bias = numbers(terms.bias);
    sum.first = start_of(terms.first);
    sum.second = start_of(terms.second);
    sum.count = x.numel();
    sum.channels = static_cast<int>(x.size(1));
    sum.relu = terms.relu;
    const c10::cuda::CUDAGuard guard(x.device());
    return map_sum_cuda(operand_type(x.scalar_type()), sum, c10::cuda::getCurrentCUDAStream().stream());
  }
#endif
  if (terms.bias.defined()) add_bias_(x, terms.bias);
  if (terms.first.defined()) x.add_(terms.first);
  if (terms.second.defined()) x.add_(terms.second);
  if (terms.relu) at::relu_(x);
}

at::Tensor resize_map(const at::Tensor& x, int64_t rows, int64_t columns, const at::Tensor& bias,
                      const PlaceTables& places) {
  check_terms(x, bias);
  const bool has_places = places.along_x.defined();
  TORCH_CHECK(!has_places || (places.along_x.sizes() == at::IntArrayRef({columns, x.size(1) / 2}) &&
                              places.along_y.sizes() == at::IntArrayRef({rows, x.size(1) / 2})),
              "maps: no tables of ", rows, " rows and ", columns, " columns");
#ifdef VGGT_CUDA
  const int64_t units = columns * x.size(1);
  const bool halves_fit = !has_places || x.scalar_type() == at::kFloat || x.size(1) % 16 == 0;
  if (kernels_take(x) && halves_fit && is_table(bias) && is_table(places.along_x) &&
      is_table(places.along_y) && std::max(x.size(0), rows) <= kMostMapSide &&
      std::max(units, x.size(2) * x.size(3)) < INT_MAX) {
    at::Tensor y = at::empty({x.size(0), x.size(1), rows, columns}, x.options().memory_format(kChannelsLast));
    MapResize resize;
    resize.x = x.const_data_ptr();
    resize.y = y.mutable_data_ptr();
    resize.bias = numbers(bias);
    resize.along_x = numbers(places.along_x);
    resize.along_y = numbers(places.along_y);
    resize.frames = static_cast<int>(x.size(0));
    resize.rows = static_cast<int>(x.size(2));
    resize.columns = static_cast<int>(x.size(3));
    resize.to_rows = static_cast<int>(rows);
    resize.to_columns = static_cast<int>(columns);
    resize.channels = static_cast<int>(x.size(1));
    const c10::cuda::CUDAGuard guard(x.device());
    map_resize_cuda(operand_type(x.scalar_type()), resize, c10::cuda::getCurrentCUDAStream().stream());
    return y;
  }
#endif
  const bool same = x.size(2) == rows && x.size(3) == columns;
  at::Tensor y = same ? x.clone() : at::upsample_bilinear2d(x, {rows, columns}, /*align_corners=*/true);
  if (bias.defined()) add_bias_(y, bias);
  if (has_places) add_places_(y, places);
  return y;
}

at::Tensor finish_map_(at::Tensor& x, const at::Tensor& bias, const at::Tensor& weight,
                       const at::Tensor& offset) {
  check_terms(x, bias);
  const int64_t outputs = weight.size(0);
  TORCH_CHECK(weight.sizes() == at::IntArrayRef({outputs, x.size(1), 1, 1}) && offset.numel() == outputs,
              "maps: expected a weight of ", x.size(1), " channels, got ", weight.sizes());
#ifdef VGGT_CUDA
  if (kernels_take(x) && is_table(bias) && is_table(weight) && is_table(offset) &&
      x.size(1) == kFinishChannels && (outputs == 2 || outputs == 4)) {
    at::Tensor y =
        at::empty({x.size(0), outputs, x.size(2), x.size(3)}, weight.options().memory_format(kChannelsLast));
    MapFinish finish;
    finish.x = x.const_data_ptr();
    finish.bias = numbers(bias);
    finish.weight = numbers(weight);
    finish.offset = numbers(offset);
    finish.y = y.mutable_data_ptr<float>();
    finish.pixels = x.size(0) * x.size(2) * x.size(3);
    finish.outputs = static_cast<int>(outputs);
    const c10::cuda::CUDAGuard guard(x.device());
    map_finish_cuda(operand_type(x.scalar_type()), finish, c10::cuda::getCurrentCUDAStream().stream());
    return y;
  }
#endif
  at::Tensor hidden = x.to(weight.scalar_type());  // x itself where that is its type
  add_to_map_(hidden, {.bias = bias, .relu = true});
  if (!hidden.is_cpu()) return convolve(hidden, weight, offset, 1, 0, /*tf32=*/false);
  // To so few channels the sums of LibTorch's convolution depend on the numbers of threads and maps.
  return at::linear(hidden.permute({0, 2, 3, 1}), weight.flatten(1), offset).permute({0, 3, 1, 2});
}

}  // namespace vggt
