#include "attention/tune/tuned_plan.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <limits>

#include "attention/cuda/cuda.h"
#include "attention/cuda/fused.h"
#include "attention/cuda/fused_check.h"
#include "attention/cuda/fused_kernel.h"
#include "attention/tune/autotune.h"

namespace vggt {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Milliseconds of one call on the current stream; infinity where memory does not suffice, or LibTorch has no
/// kernel for the sizes.
double time_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
               const CudaPlan& plan) {
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  const bool libtorch = is_libtorch(plan.kernel);
  try {
    begin.record();
    libtorch ? attention_fused(q, k, v, options, plan.kernel) : attention_cuda(q, k, v, options, plan);
    end.record();
  } catch (const c10::OutOfMemoryError&) {
    return kNever;
  } catch (const std::exception&) {
    if (libtorch) return kNever;
    throw;
  }
  end.synchronize();
  return begin.elapsed_time(end);
}

bool measures(const AttentionTuner* tuner, const at::Tensor& q) {
  return tuner && tuner->measures() && tuner->device() == q.device().index();
}

bool captures() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

/// Whether LibTorch's kernels may compute the call.
bool is_open(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const bool wanted = options.or_libtorch || options.variant == AttentionVariant::automatic;
  const bool has_work = q.numel() > 0 && k.size(2) > 0;
  // FlashAttention takes its maxima before it scales the logits.
  return wanted && has_work && options.want != AttentionWant::state && !options.q_offsets.defined() &&
         options.scale > 0;
}

/// least_milliseconds() of calls for which we may have no kernel: LibTorch's are no faster than ours for the
/// type.
double least_of_any(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                    const CudaDevice& device) {
  if (variant == AttentionVariant::sdpa)
    variant = type == CudaElement::fp32 ? AttentionVariant::split : AttentionVariant::half;
  return least_milliseconds(variant, sizes, device);
}

/// The first tokens of the first heads and batch entries: rows of them in all.
at::Tensor first_of(const at::Tensor& x, int64_t rows, int64_t tokens) {
  const int64_t heads = std::min(rows, x.size(1));
  return x.narrow(0, 0, std::min(x.size(0), rows / heads)).narrow(1, 0, heads).narrow(2, 0, tokens);
}

/// The fastest of the plans on a part of the call.
std::optional<CudaPlan> fastest_on(const CudaSizes& part, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const AttentionOptions& options,
                                   const std::vector<CudaPlan>& plans, double least_ms) {
  const at::Tensor queries = first_of(q, part.rows, part.queries);
  const at::Tensor keys = first_of(k, part.rows, part.keys), values = first_of(v, part.rows, part.keys);
  AttentionOptions of_part = options;
  of_part.parts = nullptr;  // they are the whole call's
  auto time = [&](const CudaPlan& one) { return time_of(queries, keys, values, of_part, one); };
  return fastest_plan(plans, time, least_ms);
}

}  // namespace

CudaPlan tuned_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionOptions& options, const CudaPlan& plan) {
  AttentionTuner* tuner = options.tuner;
  const bool has_work = q.numel() > 0 && k.size(2) > 0;
  if (!measures(tuner, q) || options.q_offsets.defined() || !has_work || is_libtorch(plan.kernel))
    return plan;
  const CudaSizes sizes = cuda_sizes(q, k, options);
  const CudaDevice device = cuda_device(q.device());
  const AttentionVariant variant = variant_of(plan.kernel);
  const TuneKey key = tune_key(variant, cuda_element(q.scalar_type()), sizes);
  if (const std::optional<CudaPlan> known = tuner->find(key)) {
    if (const std::optional<CudaPlan> fitted = fitted_plan(*known, sizes, device)) return *fitted;
  }
  const c10::cuda::CUDAGuard guard(q.device());
  if (captures()) return plan;
  const std::optional<CudaPlan> best = fastest_plan(
      alternative_plans(plan, sizes, device),
      [&](const CudaPlan& one) { return time_of(q, k, v, options, one); },
      least_milliseconds(variant, sizes, device));
  // Nothing is kept where nothing was measured: to ask again costs no more than to look the answer up.
  if (!best) return plan;
  tuner->keep(key, *best);
  return *best;
}

CudaPlan faster_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const CudaPlan& own) {
  if (!is_open(q, k, options)) return own;
  const CudaSizes sizes = cuda_sizes(q, k, options);
  const CudaDevice device = cuda_device(q.device());
  const CudaElement type = cuda_element(q.scalar_type());
  std::vector<CudaPlan> plans = plans_with_libtorch(own, type, sizes, device);
  if (plans.size() == 1) return own;
  const c10::cuda::CUDAGuard guard(q.device());
  if (captures()) return own;
  AttentionTuner* tuner = options.tuner;
  auto usable = [&](const CudaPlan& plan) {
    if (plan == own || fused_offered(plan.kernel, q.scalar_type(), sizes.dim, q.device())) return true;
    if (tuner) tuner->note_missing(plan.kernel);
    return false;
  };
  if (!measures(tuner, q)) return usable(plans.front()) ? plans.front() : own;

  const AttentionVariant variant = variant_of(own.kernel);
  const double share = affordable_share(plans.size(), least_of_any(variant, type, sizes, device));
  const CudaSizes part = compared_part(sizes, share, device);
  TuneKey key = tune_key(variant, type, part);
  key.libtorch = true;
  if (const std::optional<CudaPlan> known = tuner->find(key)) {
    if (!is_libtorch(known->kernel)) return own;
    if (std::ranges::count(plans, *known) > 0 && usable(*known)) return *known;
  }
  std::erase_if(plans, [&](const CudaPlan& plan) { return !usable(plan); });
  if (plans.size() == 1) return plans.front();
  const std::optional<CudaPlan> best =
      fastest_on(part, q, k, v, options, plans, least_of_any(variant, type, part, device));
  if (!best) return plans.front();
  tuner->keep(key, *best);
  return *best;
}

}  // namespace vggt
