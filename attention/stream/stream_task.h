#pragma once
#include <exception>

#include "attention/cpu/cpu.h"
#include "attention/stream/attention_streamed.h"
#include "attention/stream/stream_copies.h"
#include "attention/stream/stream_guardrail.h"

namespace vggt {

/// Whether blocks go on from the state that the CPU kernel keeps, which has none of fp64.
inline bool keys_in_order(at::Device device, at::ScalarType type) {
  return device.is_cpu() && type != at::kDouble;
}

/// One call of attention_streamed(), as its schedules see it.
struct StreamTask {
  const StreamInput& input;
  const StreamOutput& output;
  const StreamOptions& options;
  StreamCopies& copies;
  StreamGuardrail& guard;
  StreamReport& report;

  // The memory of the CPU as the device is not that of the host: what lies there is copied all the same.
  bool queries_on_device() const { return input.q.defined() && input.q.is_cuda(); }
  bool output_on_device() const { return output.out.defined() && output.out.is_cuda(); }
  bool in_order() const { return keys_in_order(options.device, input.type); }
  at::TensorOptions on_device() const { return at::TensorOptions().dtype(input.type).device(options.device); }
};

/// The state of queries [n,A,D] over keys and values [m,2,A,D], without more memory than the plan has
/// counted.
AttentionResult attend(const StreamTask& task, const at::Tensor& queries, const at::Tensor& keys_values);

/// Takes the next keys and values [m,2,A,D] of queries [n,A,D] into their state. Returns the output [1,A,n,D]
/// where these are the last. For tasks that are in_order().
at::Tensor attend_next(const StreamTask& task, const at::Tensor& queries, const at::Tensor& keys_values,
                       CpuState& state, bool last);

/// The largest number of queries up to `step` that fills a GPU's multiprocessors evenly.
int64_t even_step(const StreamShape& shape, const StreamInput& input, const StreamOptions& options,
                  int64_t step);

/// After out of memory: takes note and the guardrail's next plan. Throws `error` again where there is none.
void shrink(StreamTask& task, const std::exception& error);

}  // namespace vggt
