#pragma once
#include <optional>

#include "attention/attention_types.h"
#include "attention/stream/stream_plan.h"
#include "attention/stream/stream_rows.h"

namespace vggt {

struct StreamOptions {
  at::Device device = at::kCPU;
  int64_t max_bytes = 0;  // of the device's memory, beside tensors that lie there already; 0 with a plan: any
  std::optional<StreamSchedule> schedule;  // none: choose_stream()'s
  std::optional<StreamPlan> plan;          // where given, instead of one for max_bytes
  double scale = 0;                        // of the logits; 0: 1/sqrt(D)
  AttentionVariant variant = AttentionVariant::automatic;
};

/// What a call did. On a GPU copies and waits are by its events, on the CPU nothing overlaps.
struct StreamReport {
  StreamPlan plan;                                                // of the last subproblem
  double copy_ms = 0, compute_ms = 0, wait_ms = 0, total_ms = 0;  // total: compute and wait
  int64_t bytes_to_device = 0, bytes_to_host = 0;
  int64_t peak_bytes = 0;   // of the device, as planned, by the largest plan that ran
  int64_t subproblems = 0;  // computed: blocks of queries, or parts
  int64_t retries = 0;      // subproblems that ran out of memory

  /// The share of the time in which nothing waited.
  double overlap() const { return total_ms > 0 ? 1 - wait_ms / total_ms : 1; }
};

/// attention() of one sequence with itself, in little memory of a device: q, k, v and the output stay where
/// they are. Equal to attention() but for the rounding of merged states, on a CPU in blocks to the bit (but
/// where attention() is LibTorch's, in fp64, or of a few tokens). Returns when the output is complete.
/// A subproblem that runs out of memory is computed again by StreamGuardrail's plan. Throws c10::Error for
/// tensors that do not fit, std::invalid_argument as choose_stream(), out of memory at the finest plan, and
/// what the functions of input and output throw; the output is then incomplete.
StreamReport attention_streamed(const StreamInput& input, const StreamOutput& output,
                                const StreamOptions& options);

}  // namespace vggt
