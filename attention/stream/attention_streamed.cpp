#include "attention/stream/attention_streamed.h"

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>

#include "attention/stream/stream_blocks.h"
#include "attention/stream/stream_parts.h"
#include "attention/stream/stream_task.h"

namespace vggt {
namespace {

StreamShape shape_of(const StreamInput& input, const StreamOutput& output, at::Device device) {
  StreamShape shape{input.tokens, input.heads, input.dim, static_cast<int64_t>(c10::elementSize(input.type))};
  shape.queries_on_device =
      input.q.defined() && input.q.is_cuda() && output.out.defined() && output.out.is_cuda();
  shape.keys_in_order = keys_in_order(device, input.type);
  return shape;
}

StreamPlan plan_of(const StreamShape& shape, const StreamInput& input, const StreamOptions& options) {
  StreamPlan plan;
  if (options.plan) return settle_stream(shape, *options.plan);
  if (!options.schedule) {
    plan = choose_stream(shape, options.max_bytes).plan;
  } else if (*options.schedule == StreamSchedule::blocked) {
    plan = plan_blocked(shape, options.max_bytes);
  } else {
    plan = plan_quorums(shape, options.max_bytes);
  }
  plan.step = even_step(shape, input, options, plan.step);
  return settle_stream(shape, plan);
}

std::unique_ptr<StreamCopies> copies_of(const StreamInput& input, const StreamOutput& output,
                                        at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) return cuda_copies(input, output, device);
#endif
  TORCH_CHECK(device.is_cpu(), "attention_streamed: this build has no CUDA, got the device ", device);
  return cpu_copies(input, output);
}

}  // namespace

StreamReport attention_streamed(const StreamInput& input, const StreamOutput& output,
                                const StreamOptions& given) {
  const auto begin = std::chrono::steady_clock::now();
  StreamOptions options = given;
  if (options.device.is_cuda() && !options.device.has_index()) options.device.set_index(0);
  check_rows(input, output, options.device);
  const StreamShape shape = shape_of(input, output, options.device);
  // Beside a plan, no bytes need be given.
  const int64_t most = options.max_bytes > 0 ? options.max_bytes : std::numeric_limits<int64_t>::max();
  StreamGuardrail guard(shape, plan_of(shape, input, options), most);
  StreamReport report;
  const auto copies = copies_of(input, output, options.device);
  StreamTask task{input, output, options, *copies, guard, report};
  const auto attend_all = guard.plan().schedule == StreamSchedule::blocked ? attend_blocks : attend_parts;
  attend_all(task);
  copies->settle();
  const StreamTimes times = copies->times();
  report.plan = guard.plan();
  report.copy_ms = times.copy_ms;
  report.wait_ms = times.wait_ms;
  report.bytes_to_device = times.bytes_to_device;
  report.bytes_to_host = times.bytes_to_host;
  report.total_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  report.compute_ms = report.total_ms - report.wait_ms;
  return report;
}

}  // namespace vggt
