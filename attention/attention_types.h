#pragma once
#include <ATen/ATen.h>

#include "attention/variant.h"

// What goes into attention() and comes out of it. The kernels know this header; attention.h, the call, knows
// the kernels.
namespace vggt {

class AttentionTuner;  // attention/tune/autotune.h

/// What attention() returns besides the output.
enum class AttentionWant {
  output,      // out
  output_lse,  // out and lse
  state,       // m, s, w: the un-normalised state, to be merged with states over other keys
};

/// q and k of a call of fp32 in fp16 parts, made before it, and what is known of v (Note [Splitting] in
/// attention/cuda/split_parts.h).
struct QkParts {
  at::Tensor q, k;     // fp16 [2,B,A,N,D], contiguous: high parts, then low ones
  at::Tensor bounds;   // fp32 [3,B,A]: no |q|, |k|, |v| of the head exceeds it; it gives the parts' exponent
  at::Tensor largest;  // fp32 [2,B,A]: the largest |q| and |k| of the head; infinite where one is not finite
};

struct AttentionOptions {
  double scale = 0;  // factor of the logits; 0: 1/sqrt(D)
  AttentionWant want = AttentionWant::output;
  /// Of a state: m may be any number near the maximum logit. Merging and finalising take such states as well,
  /// and kernels that need not look for the maximum are faster.
  bool any_m = false;
  AttentionVariant variant = AttentionVariant::automatic;  // others: for fp32, bf16, fp16 on CUDA only
  /// Whether LibTorch's kernels may take the variant's place where they are faster and no less exact, as they
  /// may take automatic's: for outputs without packed sequences, and a positive scale.
  bool or_libtorch = false;
  /// Where a GPU's plans are kept, and what ran is noted: a class of sizes that is new to it is measured on
  /// first use. Null: plans by rule alone, the same on every run.
  AttentionTuner* tuner = nullptr;
  /// Packed sequences of different lengths: int64 CPU tensors [sequences + 1] of token offsets, with B = 1.
  /// Query i of sequence j attends to the keys of sequence j only. Undefined: one sequence per batch entry.
  at::Tensor q_offsets, k_offsets;
  /// Of the call's q and k, in room_for_parts(); null: a kernel that computes by parts makes them.
  const QkParts* parts = nullptr;
};

struct AttentionResult {
  at::Tensor out;  // [B,A,Nq,D], type of q, laid out as [B,Nq,A,D] so that joining the heads is a view
  /// [B,A,Nq] log of the sum of exp(logit); -inf where there are no keys. fp32 (fp64 for fp64)
  at::Tensor lse;
  at::Tensor m, s;  // [B,A,Nq] maximum logit, sum of exp(logit - m). fp32 (fp64 for fp64)
  at::Tensor w;     // [B,A,Nq,D] sum of exp(logit - m)·v. fp32 (fp64 for fp64)
};

/// The state over the union of two disjoint sets of keys, from the states of the same queries over each.
/// Associative and commutative; not idempotent: every (query, key) pair must be counted exactly once.
AttentionResult merge_states(const AttentionResult& a, const AttentionResult& b);

/// out (in this type) and lse of a finished state.
AttentionResult finalise_state(const AttentionResult& state, at::ScalarType type);

}  // namespace vggt
