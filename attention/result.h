#pragma once
#include "attention/attention.h"

namespace vggt {

/// Throws c10::Error for offsets of packed sequences, called `name`, that do not cut this many tokens up.
void check_offsets(const at::Tensor& offsets, int64_t tokens, const char* name);

/// The type of states, lse and accumulation: fp64 for fp64, else fp32.
at::ScalarType state_type(at::ScalarType type);

/// An uninitialised result with what is wanted for q [B,A,Nq,D].
AttentionResult empty_result(const at::Tensor& q, AttentionWant want);

/// x [B,A,N,D] with D filled up with zeros to `width`, in rows that start at multiples of 16 bytes. x itself
/// where it is so already.
at::Tensor padded_rows(const at::Tensor& x, int64_t width);

/// out [B,A,N,D'] without its padding, laid out as [B,N,A,D]. out itself where it is so already.
at::Tensor joinable(const at::Tensor& out, int64_t dim);

/// merge_states(state, other) in the memory of `state`.
void merge_into(AttentionResult& state, const AttentionResult& other);

/// finalise_state() in the memory of `state` where the type allows.
AttentionResult finalise_own(AttentionResult state, at::ScalarType type);

/// Uninitialised [B,A,N,D], laid out as [B,N,A,D].
at::Tensor empty_joinable(at::IntArrayRef sizes, at::TensorOptions options);

}  // namespace vggt
