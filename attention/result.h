#pragma once
#include "attention/attention.h"

namespace vggt {

/// The type of states, lse and accumulation: fp64 for fp64, else fp32.
at::ScalarType state_type(at::ScalarType type);

/// An uninitialised result with what is wanted for q [B,A,Nq,D].
AttentionResult empty_result(const at::Tensor& q, AttentionWant want);

/// Uninitialised [B,A,N,D], laid out as [B,N,A,D].
at::Tensor empty_joinable(at::IntArrayRef sizes, at::TensorOptions options);

}  // namespace vggt
