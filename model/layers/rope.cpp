#include "model/layers/rope.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <vector>

#include "model/layers/alignment.h"
#include "model/layers/rope_params.h"
#include "model/layers/row_passes.h"
#include "model/layers/segment_mean.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace vggt {
namespace {

// T: what is computed in; Stored: the type of x.

template <typename Stored, typename T>
void normalise(const Stored* x, const T* weight, const T* bias, T eps, int64_t n, T* out) {
  T mean = 0, variance = 0;
  for (int64_t i = 0; i < n; ++i) mean += out[i] = static_cast<T>(x[i]);
  mean /= static_cast<T>(n);
  for (int64_t i = 0; i < n; ++i) variance += (out[i] - mean) * (out[i] - mean);
  const T scale = 1 / std::sqrt(variance / static_cast<T>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = (out[i] - mean) * scale * weight[i] + bias[i];
}

/// Turns pairs (i, i + n) of x [2n] by the angles of one position; writes to out.
template <typename T, typename Stored>
void rotate(const T* x, const T* cosine, const T* sine, int64_t n, Stored* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<Stored>(x[i] * cosine[i] - x[i + n] * sine[i]);
    out[i + n] = static_cast<Stored>(x[i + n] * cosine[i] + x[i] * sine[i]);
  }
}

template <typename Stored, typename T>
void norm_rope_cpu(Stored* x, const NormRopeParams<T>& p) {
  const int64_t quarter = p.head_dim / 4;
  at::parallel_for(0, p.tokens, 16, [&](int64_t begin, int64_t end) {
    std::vector<T> normed(p.head_dim);
    for (int64_t token = begin; token < end; ++token) {
      const int64_t patch = token % p.tokens_per_frame - p.special_tokens;
      const int64_t row = patch < 0 ? 0 : patch / p.columns + 1;
      const int64_t column = patch < 0 ? 0 : patch % p.columns + 1;
      for (int64_t head = 0; head < p.heads; ++head) {
        Stored* values = x + token * p.token_stride + head * p.head_dim;
        normalise(values, p.weight, p.bias, p.eps, p.head_dim, normed.data());
        rotate(normed.data(), p.cosine + row * quarter, p.sine + row * quarter, quarter, values);
        rotate(normed.data() + 2 * quarter, p.cosine + column * quarter, p.sine + column * quarter, quarter,
               values + 2 * quarter);
      }
    }
  });
}

template <typename T>
NormRopeParams<T> make_params(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              double eps, const Rope& rope) {
  return {weight.const_data_ptr<T>(),
          bias.const_data_ptr<T>(),
          rope.cosine.const_data_ptr<T>(),
          rope.sine.const_data_ptr<T>(),
          x.size(0),
          x.size(1),
          x.size(2),
          x.stride(0),
          rope.tokens_per_frame,
          rope.special_tokens,
          rope.columns,
          static_cast<T>(eps)};
}

}  // namespace

Rope::Rope(int64_t rows, int64_t columns, int64_t special_tokens, int64_t head_dim, double base,
           const at::TensorOptions& options)
    : tokens_per_frame(special_tokens + rows * columns), special_tokens(special_tokens), columns(columns) {
  // In the state type, step by step as the reference, so that the angles are the reference's to the last bit.
  const at::TensorOptions cpu = options.device(at::kCPU);
  const int64_t half = head_dim / 2;
  const at::Tensor exponents = at::arange(0, half, 2, cpu) / half;  // [D/4]
  const at::Tensor frequency = at::reciprocal(at::pow(at::Scalar(base), exponents));
  const at::Tensor positions = at::arange(0, std::max(rows, columns) + 1, cpu);  // [positions]
  const at::Tensor angles = positions.unsqueeze(1) * frequency.unsqueeze(0);     // [positions,D/4]
  cosine = angles.cos().to(options.device());
  sine = angles.sin().to(options.device());
}

namespace {

#ifdef VGGT_CUDA
NormRopeParts parts_at(const at::Tensor& x, const PartsPlace& place) {
  const at::Tensor& room = place.which == 0 ? place.parts.q : place.parts.k;  // [2,B,A,N,D]
  TORCH_CHECK(x.scalar_type() == at::kFloat && room.size(2) == x.size(1) && room.size(4) == x.size(2) &&
                  place.first + x.size(0) <= room.size(1) * room.size(3),
              "norm_rope_: expected room for the parts of ", x.sizes(), " in fp32 from token ", place.first,
              " on, got ", room.sizes());
  NormRopeParts to;
  to.high = room.mutable_data_ptr();
  to.low = room.stride(0);
  to.bound = place.parts.bounds[place.which].mutable_data_ptr<float>();
  to.largest = place.parts.largest[place.which].mutable_data_ptr<float>();
  to.sequence = room.size(3);
  to.first = place.first;
  return to;
}
#endif

}  // namespace

bool writes_parts(const at::Tensor& weight, const at::Tensor& bias, const Rope& rope) {
  return norm_rope_splits(weight.size(0)) && weight.scalar_type() == at::kFloat && is_aligned(weight) &&
         is_aligned(bias) && is_aligned(rope.cosine) && is_aligned(rope.sine);
}

void norm_rope_(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                const Rope& rope, const std::optional<PartsPlace>& place) {
  TORCH_CHECK(x.dim() == 3 && x.stride(2) == 1 && x.stride(1) == x.size(2),
              "norm_rope_: expected x [T,A,D] with contiguous heads, got ", x.sizes(), " with strides ",
              x.strides());
  TORCH_CHECK(x.size(2) % 4 == 0, "norm_rope_: head dim must be a multiple of 4, got ", x.size(2));
  TORCH_CHECK(!place || x.is_cuda(), "norm_rope_: parts are written on a GPU");
  const bool is_double = x.scalar_type() == at::kDouble;
  if (x.is_cpu()) {
    if (is_double)
      return norm_rope_cpu(x.mutable_data_ptr<double>(), make_params<double>(x, weight, bias, eps, rope));
    const NormRopeParams<float> params = make_params<float>(x, weight, bias, eps, rope);
    if (x.scalar_type() == at::kFloat) return norm_rope_cpu(x.mutable_data_ptr<float>(), params);
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "norm_rope_: the CPU takes fp64, fp32 and bf16");
    return norm_rope_cpu(x.mutable_data_ptr<at::BFloat16>(), params);
  }
#ifdef VGGT_CUDA
  const c10::cuda::CUDAGuard guard(x.device());
  void* stream = c10::cuda::getCurrentCUDAStream().stream();
  if (is_double) {
    TORCH_CHECK(!place, "norm_rope_: parts are of fp32");
    norm_rope_cuda(x.mutable_data_ptr(), make_params<double>(x, weight, bias, eps, rope), stream);
  } else {
    norm_rope_cuda(operand_type(x.scalar_type()), x.mutable_data_ptr(),
                   make_params<float>(x, weight, bias, eps, rope), stream,
                   place ? parts_at(x, *place) : NormRopeParts());
  }
#else
  TORCH_CHECK(false, "norm_rope_: this build has no CUDA");
#endif
}

#ifdef VGGT_CUDA
namespace {

bool kernel_takes(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, const Rope& rope) {
  const auto type = x.scalar_type();
  const auto bytes = static_cast<int64_t>(x.element_size());
  return x.is_cuda() && out.device() == x.device() &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) && x.size(0) < INT_MAX &&
         norm_rope_mean_takes(x.size(2)) && out.stride(0) * bytes % 16 == 0 && is_aligned(x) &&
         is_aligned(out) && is_aligned(weight) && is_aligned(bias) && is_aligned(rope.cosine) &&
         is_aligned(rope.sine);
}

}  // namespace
#endif

void norm_rope_mean_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, double eps, const Rope& rope, const at::Tensor& members,
                         const at::Tensor& offsets) {
  TORCH_CHECK(x.dim() == 3 && x.is_contiguous() && out.dim() == 3 &&
                  out.sizes().slice(1) == x.sizes().slice(1) && out.stride(2) == 1 &&
                  out.stride(1) == out.size(2) && out.scalar_type() == x.scalar_type() &&
                  out.size(0) + 1 == offsets.size(0),
              "norm_rope_mean_into: expected contiguous x [T,A,D], offsets [M+1] and room of the same type "
              "[M,A,D], got ",
              x.sizes(), ", ", offsets.sizes(), " and ", out.sizes());
  TORCH_CHECK(members.scalar_type() == at::kLong && offsets.scalar_type() == at::kLong &&
                  members.is_contiguous() && offsets.is_contiguous() && members.device() == x.device() &&
                  offsets.device() == x.device(),
              "norm_rope_mean_into: expected contiguous members and offsets in int64 beside x");
#ifdef VGGT_CUDA
  if (kernel_takes(out, x, weight, bias, rope)) {
    NormRopeMean means;
    means.turn = make_params<float>(x, weight, bias, eps, rope);
    means.x = x.const_data_ptr();
    means.members = members.const_data_ptr<int64_t>();
    means.offsets = offsets.const_data_ptr<int64_t>();
    means.out = out.mutable_data_ptr();
    means.rows = out.size(0);
    means.out_stride = out.stride(0);
    const c10::cuda::CUDAGuard guard(x.device());
    return norm_rope_mean_cuda(operand_type(x.scalar_type()), means,
                               c10::cuda::getCurrentCUDAStream().stream());
  }
#endif
  norm_rope_(x, weight, bias, eps, rope);
  at::Tensor means = out.view({out.size(0), x.size(1) * x.size(2)});  // [M,A·D]
  segment_mean_into(means, x.view({x.size(0), -1}), members, offsets);
}

}  // namespace vggt
