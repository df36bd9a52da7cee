#pragma once
#include <exception>

#include "attention/stream/attention_streamed.h"
#include "attention/stream/stream_copies.h"
#include "attention/stream/stream_guardrail.h"

namespace vggt {

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
  at::TensorOptions on_device() const { return at::TensorOptions().dtype(input.type).device(options.device); }
};

/// The state of queries [n,A,D] over keys and values [m,2,A,D], without more memory than the plan has
/// counted.
AttentionResult attend(const StreamTask& task, const at::Tensor& queries, const at::Tensor& keys_values);

/// The largest number of queries up to `step` that fills a GPU's multiprocessors evenly.
int64_t even_step(const StreamShape& shape, const StreamInput& input, const StreamOptions& options,
                  int64_t step);

/// After out of memory: takes note and the guardrail's next plan. Throws `error` again where there is none.
void shrink(StreamTask& task, const std::exception& error);

}  // namespace vggt
