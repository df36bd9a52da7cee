#include "attention/stream/stream_task.h"

#include <algorithm>
#include <cmath>

#include "attention/attention.h"
#include "attention/out_of_memory.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif

namespace vggt {
namespace {

/// [n,A,D] as attention() takes it.
at::Tensor batch_of(const at::Tensor& rows) {
  return rows.transpose(0, 1).unsqueeze(0);  // [1,A,n,D]
}

AttentionOptions call_options(const StreamOptions& options, int64_t dim) {
  AttentionOptions call;
  call.scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(dim)) : options.scale;
  call.variant = options.variant;
  call.want = AttentionWant::state;
  call.any_m = true;
  return call;
}

}  // namespace

AttentionResult attend(const StreamTask& task, const at::Tensor& queries, const at::Tensor& keys_values) {
  const at::Tensor q = batch_of(queries), k = batch_of(keys_values.select(1, 0)),
                   v = batch_of(keys_values.select(1, 1));
  const AttentionOptions options = call_options(task.options, q.size(3));
#ifdef VGGT_CUDA
  if (q.is_cuda() && q.scalar_type() != at::kDouble) {
    CudaPlan plan = plan_cuda(q, k, options);
    plan.partitions = 1;  // the states of more would take memory, and a step has queries for all of the GPU
    if (!is_libtorch(plan.kernel)) return attention_cuda(q, k, v, options, plan);
  }
#endif
  return attention(q, k, v, options);
}

at::Tensor attend_next(const StreamTask& task, const at::Tensor& queries, const at::Tensor& keys_values,
                       CpuState& state, bool last) {
  AttentionOptions options = call_options(task.options, queries.size(2));
  options.want = AttentionWant::output;
  return attention_cpu_next(batch_of(queries), batch_of(keys_values.select(1, 0)),
                            batch_of(keys_values.select(1, 1)), options, best_cpu_isa(), state, last);
}

int64_t even_step([[maybe_unused]] const StreamShape& shape, [[maybe_unused]] const StreamInput& input,
                  [[maybe_unused]] const StreamOptions& options, int64_t step) {
#ifdef VGGT_CUDA
  if (options.device.is_cuda() && input.type != at::kDouble) {
    const CudaDevice device = cuda_device(options.device);
    const CudaSizes sizes{shape.heads, step, step, shape.dim};
    const int64_t tile =
        choose_cuda_plan(options.variant, cuda_element(input.type), sizes, device).tile.queries;
    if (tile == 0) return step;  // LibTorch's
    int64_t best = step;
    double best_share = 0;  // of the multiprocessors that have a block, over all waves
    for (int64_t tiles = step / tile; tiles > step / tile / 2; --tiles) {
      const int64_t blocks = tiles * shape.heads;
      const int64_t waves = (blocks + device.multiprocessors - 1) / device.multiprocessors;
      const double share = static_cast<double>(blocks) / static_cast<double>(waves * device.multiprocessors);
      if (share <= best_share) continue;
      best_share = share;
      best = tiles * tile;
    }
    return best;
  }
#endif
  return step;
}

void shrink(StreamTask& task, const std::exception& error) {
  if (!is_out_of_memory(error)) throw;
  task.copies.settle();
  ++task.report.retries;
  if (!task.guard.out_of_memory()) throw;
}

}  // namespace vggt
