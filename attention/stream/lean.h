#pragma once
#include <ATen/ATen.h>

#include "attention/attention_types.h"

namespace vggt {

// "Lean" is ELSA's name for its variant with little memory: keys and values stay in host memory and pass
// through a small buffer on the GPU, eta keys at a time.

/// Milliseconds of the parts of attention_lean(): on a GPU by its events, on the CPU by its clock. Copies run
/// beside the computation, which waits where they come too late.
struct LeanTimes {
  double copy_ms = 0, compute_ms = 0, wait_ms = 0;
  double total_ms = 0;  // compute and wait

  /// The share of the time in which nothing waited.
  double overlap_efficiency() const { return total_ms > 0 ? 1 - wait_ms / total_ms : 1; }
};

/// attention() in little memory of q's device: eta keys at a time, whose states are merged as they come.
/// q [B,A,Nq,D]; k and v [B,A,Nk,D] on q's device, or on the CPU for a q on a GPU. The device holds two
/// chunks of k and v, the state so far, and that of some queries over a chunk (of all in packed sequences).
/// Copies from pinned memory overlap best. Returns when the host's k and v have been read; with `times`, when
/// all is done. Throws c10::Error as attention() does, and for eta < 1.
AttentionResult attention_lean(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t eta,
                               const AttentionOptions& options = {}, LeanTimes* times = nullptr);

}  // namespace vggt
