#include "attention/attention.h"

#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "attention/cpu/cpu.h"
#include "attention/packed_offsets.h"
#include "attention/reference.h"
#include "attention/result.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#include "attention/cuda/fused.h"
#include "attention/cuda/fused_check.h"
#include "attention/tune/autotune.h"
#include "attention/tune/tuned_plan.h"
#endif

namespace vggt {
namespace {

void check_tensors(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "attention: expected q, k and v [B,A,N,D], got ",
              q.sizes(), ", ", k.sizes(), ", ", v.sizes());
  const bool fits = k.size(0) == q.size(0) && k.size(1) == q.size(1) && k.size(3) == q.size(3) &&
                    v.sizes() == k.sizes() && q.size(3) > 0;
  TORCH_CHECK(fits, "attention: expected q [B,A,Nq,D], k and v [B,A,Nk,D], got ", q.sizes(), ", ", k.sizes(),
              ", ", v.sizes());
  const auto type = q.scalar_type();
  TORCH_CHECK(type == at::kDouble || type == at::kFloat || type == at::kBFloat16 || type == at::kHalf,
              "attention: expected fp64, fp32, bf16 or fp16, got ", type);
  TORCH_CHECK(k.scalar_type() == type && v.scalar_type() == type, "attention: expected one type, got ", type,
              ", ", k.scalar_type(), ", ", v.scalar_type());
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(), "attention: expected one device, got ",
              q.device(), ", ", k.device(), ", ", v.device());
  TORCH_CHECK(q.size(3) == 1 || (q.stride(3) == 1 && k.stride(3) == 1 && v.stride(3) == 1),
              "attention: expected a contiguous last dimension, got strides ", q.strides(), ", ", k.strides(),
              ", ", v.strides());
}

void check_options(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  // Beyond these, the factors of the exponential leave the range of fp32.
  TORCH_CHECK(options.scale == 0 || (std::abs(options.scale) > 1e-30 && std::abs(options.scale) < 1e30),
              "attention: expected |scale| in (1e-30, 1e30), got ", options.scale);
  TORCH_CHECK(options.q_offsets.defined() == options.k_offsets.defined(),
              "attention: expected both q_offsets and k_offsets, or none");
  if (!options.q_offsets.defined()) return;
  TORCH_CHECK(q.size(0) == 1, "attention: expected B = 1 with packed sequences, got ", q.size(0));
  check_offsets(options.q_offsets, q.size(2), "q_offsets");
  check_offsets(options.k_offsets, k.size(2), "k_offsets");
  TORCH_CHECK(options.q_offsets.numel() == options.k_offsets.numel(),
              "attention: expected as many sequences in k_offsets as in q_offsets, got ",
              options.k_offsets.numel() - 1, " and ", options.q_offsets.numel() - 1);
}

AttentionResult by_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options) {
  AttentionResult state = attention_by_definition(q, k, v, options.scale);
  return options.want == AttentionWant::state ? state : finalise_own(std::move(state), q.scalar_type());
}

/// Packed sequences one after another, for implementations that know only whole batches.
template <class F>
AttentionResult by_sequence(F attend, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionOptions& options) {
  if (!options.q_offsets.defined()) return attend(q, k, v, options);
  const AttentionResult all = empty_result(q, options.want);
  const int64_t* qo = options.q_offsets.const_data_ptr<int64_t>();
  const int64_t* ko = options.k_offsets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i + 1 < options.q_offsets.numel(); ++i) {
    const int64_t first = qo[i], count = qo[i + 1] - first;
    if (count == 0) continue;
    copy_result(slice_result(all, 2, first, count),
                attend(q.narrow(2, first, count), k.narrow(2, ko[i], ko[i + 1] - ko[i]),
                       v.narrow(2, ko[i], ko[i + 1] - ko[i]), options));
  }
  return all;
}

#ifdef VGGT_CUDA
/// attention() by a kernel of LibTorch's that ours can replace; nothing where memory does not suffice, or the
/// kernel, which is then not taken again, refuses the sizes.
std::optional<AttentionResult> attempt_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                             const AttentionOptions& options, CudaKernel fused) {
  try {
    return attention_fused(q, k, v, options, fused);
  } catch (const c10::OutOfMemoryError&) {
  } catch (const std::exception&) {
    withdraw_fused(fused, q.scalar_type(), q.size(3), q.device());
  }
  return std::nullopt;
}

AttentionResult attention_on_gpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionOptions& options) {
  const CudaPlan rule = plan_cuda(q, k, options);
  if (is_libtorch(rule.kernel) && options.q_offsets.defined()) {
    AttentionOptions whole = options;
    whole.q_offsets = whole.k_offsets = at::Tensor();
    auto attend = [&](const at::Tensor& one_q, const at::Tensor& one_k, const at::Tensor& one_v,
                      const AttentionOptions&) { return attention_on_gpu(one_q, one_k, one_v, whole); };
    return by_sequence(attend, q, k, v, options);
  }
  const CudaPlan own = tuned_plan(q, k, v, options, rule), plan = faster_plan(q, k, v, options, own);
  auto note = [&](const CudaPlan& ran) {
    AttentionTuner* tuner = options.tuner;
    if (tuner && tuner->device() == q.device().index()) tuner->note_run(variant_of(rule.kernel), ran);
  };
  if (plan != own) {
    if (std::optional<AttentionResult> result = attempt_fused(q, k, v, options, plan.kernel)) {
      note(plan);
      return *std::move(result);
    }
  }
  note(own);
  if (is_libtorch(own.kernel)) return attention_fused(q, k, v, options, own.kernel);
  return attention_cuda(q, k, v, options, own);
}
#endif

}  // namespace

AttentionResult attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionOptions& options) {
  check_tensors(q, k, v);
  check_options(q, k, options);
  AttentionOptions settled = options;
  if (settled.scale == 0) settled.scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const bool fp64 = q.scalar_type() == at::kDouble;
  TORCH_CHECK(options.variant == AttentionVariant::automatic || (q.is_cuda() && !fp64),
              "attention: expected CUDA tensors of fp32, bf16 or fp16 for a variant, got ", q.scalar_type(),
              " on ", q.device());
  if (fp64) return by_sequence(by_definition, q, k, v, settled);
  if (q.is_cpu() && flash_pays_on_cpu(q, k, settled)) return attention_flash_cpu(q, k, v, settled);
  if (q.is_cpu()) return attention_cpu(q, k, v, settled, best_cpu_isa());
  TORCH_CHECK(q.is_cuda(), "attention: expected a CPU or CUDA tensor, got ", q.device());
#ifdef VGGT_CUDA
  return attention_on_gpu(q, k, v, settled);
#else
  TORCH_CHECK(false, "attention: this build has no CUDA, got a tensor on ", q.device());
#endif
}

#ifdef VGGT_CUDA
std::optional<QkParts> room_for_parts(at::IntArrayRef sizes, const at::TensorOptions& type,
                                      const AttentionOptions& options) {
  const bool fits = type.device().is_cuda() && type.dtype() == at::kFloat && !options.q_offsets.defined() &&
                    sizes[2] > 0 && sizes[3] == kernel_dim(sizes[3]);
  if (!fits) return std::nullopt;
  const int64_t B = sizes[0], A = sizes[1], N = sizes[2], D = sizes[3];
  const CudaDevice device = cuda_device(numbered(type.device()));
  if (!variant_refusal(options.variant, CudaElement::fp32, D, device).empty()) return std::nullopt;
  const CudaPlan plan = choose_cuda_plan(options.variant, CudaElement::fp32, {B * A, N, N, D}, device);
  constexpr int64_t kNumberBytes = 3 * 2 * sizeof(at::Half);  // of q, k and v, in two parts
  if (variant_of(plan.kernel) != AttentionVariant::split ||
      part_group(B, A, kNumberBytes * N * D) != PartGroup{B, A})
    return std::nullopt;
  const auto room = [&] { return at::empty({2, B, A, N, D}, type.dtype(at::kHalf)); };
  return QkParts{room(), room(), at::empty({3, B, A}, type), at::zeros({2, B, A}, type)};
}
#else
std::optional<QkParts> room_for_parts(at::IntArrayRef, const at::TensorOptions&, const AttentionOptions&) {
  return std::nullopt;
}
#endif

}  // namespace vggt
