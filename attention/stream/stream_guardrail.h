#pragma once
#include "attention/stream/stream_plan.h"

namespace vggt {

/// Stream-CQSA's guardrail (section 2.5), for both schedules.
class StreamGuardrail {
 public:
  StreamGuardrail(const StreamShape& shape, const StreamPlan& plan, int64_t max_bytes);

  /// The plan for what is left to do.
  const StreamPlan& plan() const { return plan_; }
  /// After a subproblem ran out of memory: n_cap - 1, or at 1 a finer division (itr + 1, or halves), which
  /// begins with n_cap 1. False where no finer one is left.
  bool out_of_memory();
  /// After a subproblem was computed. The first after a finer division calibrates: n_cap becomes what fits
  /// into less memory than has failed so far.
  void succeeded();

 private:
  StreamShape shape_;
  StreamPlan plan_;
  int64_t bytes_;  // that the device can give, as far as is known
  int most_loaded_;
  bool calibrating_ = false;
};

}  // namespace vggt
