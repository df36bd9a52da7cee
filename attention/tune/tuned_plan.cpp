#include "attention/tune/tuned_plan.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <limits>

#include "attention/cuda/cuda.h"
#include "attention/tune/autotune.h"

namespace vggt {
namespace {

/// Milliseconds of one call on the current stream; infinity where memory does not suffice.
double time_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
               const CudaPlan& plan) {
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  try {
    begin.record();
    attention_cuda(q, k, v, options, plan);
    end.record();
  } catch (const c10::OutOfMemoryError&) {
    return std::numeric_limits<double>::infinity();
  }
  end.synchronize();
  return begin.elapsed_time(end);
}

}  // namespace

CudaPlan tuned_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionOptions& options, const CudaPlan& plan) {
  AttentionTuner* tuner = options.tuner;
  const bool has_work = q.numel() > 0 && k.size(2) > 0;
  if (!tuner || tuner->device() != q.device().index() || options.q_offsets.defined() || !has_work)
    return plan;
  const CudaSizes sizes = cuda_sizes(q, k, options);
  const CudaDevice device = cuda_device(q.device());
  const AttentionVariant variant = variant_of(plan.kernel);
  const TuneKey key = tune_key(variant, cuda_element(q.scalar_type()), sizes);
  if (const std::optional<CudaPlan> known = tuner->find(key)) {
    if (const std::optional<CudaPlan> fitted = fitted_plan(*known, sizes, device)) return *fitted;
  }
  const c10::cuda::CUDAGuard guard(q.device());
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return plan;
  const std::optional<CudaPlan> best = fastest_plan(
      alternative_plans(plan, sizes, device),
      [&](const CudaPlan& one) { return time_of(q, k, v, options, one); },
      least_milliseconds(variant, sizes, device));
  // Nothing is kept where nothing was measured: to ask again costs no more than to look the answer up.
  if (!best) return plan;
  tuner->keep(key, *best);
  return *best;
}

}  // namespace vggt
