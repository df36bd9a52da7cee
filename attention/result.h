#pragma once
#include "attention/attention_types.h"

namespace vggt {

/// The type of states, lse and accumulation: fp64 for fp64, else fp32.
at::ScalarType state_type(at::ScalarType type);

/// An uninitialised result with what is wanted for q [B,A,Nq,D].
AttentionResult empty_result(const at::Tensor& q, AttentionWant want);

/// Views of the members that are defined: entries first .. first + count - 1 along dimension `dim`, 0 (batch)
/// or 2 (queries).
AttentionResult slice_result(const AttentionResult& result, int64_t dim, int64_t first, int64_t count);

/// Copies `from` into the memory of `to`, member by member, where `to` has the member.
void copy_result(const AttentionResult& to, const AttentionResult& from);

/// x [B,A,N,D] with D filled up with zeros to `width`, in rows that start at multiples of 16 bytes. Returns x
/// itself where that holds already.
at::Tensor padded_rows(const at::Tensor& x, int64_t width);

/// out [B,A,N,D'] without its padding, laid out as [B,N,A,D]. Returns out itself where that holds already.
at::Tensor joinable(const at::Tensor& out, int64_t dim);

/// merge_states(state, other) in the memory of `state`.
void merge_into(AttentionResult& state, const AttentionResult& other);

/// finalise_state() in the memory of `state` where the type allows.
AttentionResult finalise_own(AttentionResult state, at::ScalarType type);

/// Uninitialised [B,A,N,D], laid out as [B,N,A,D].
at::Tensor empty_joinable(at::IntArrayRef sizes, at::TensorOptions options);

}  // namespace vggt
