#include "attention/result.h"

#include <limits>
#include <utility>

namespace vggt {
namespace {

constexpr at::Tensor AttentionResult::*kMembers[] = {&AttentionResult::out, &AttentionResult::lse,
                                                     &AttentionResult::m, &AttentionResult::s,
                                                     &AttentionResult::w};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The maximum to subtract: see anchor() in state.h.
at::Tensor finite_anchor(const at::Tensor& m) {
  return m.masked_fill(m == -kInfinity, 0);
}

}  // namespace

at::ScalarType state_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor empty_joinable(at::IntArrayRef sizes, at::TensorOptions options) {
  const int64_t heads = sizes[1], tokens = sizes[2], dim = sizes[3];
  return at::empty_strided(sizes, {tokens * heads * dim, dim, heads * dim, 1}, options);
}

at::Tensor padded_rows(const at::Tensor& x, int64_t width) {
  const int64_t unit = 16 / x.element_size();
  if (x.size(3) != width) return at::constant_pad_nd(x, {0, width - x.size(3)});
  const bool aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 && x.stride(3) == 1 &&
                       x.stride(0) % unit == 0 && x.stride(1) % unit == 0 && x.stride(2) % unit == 0;
  return aligned ? x : x.clone(at::MemoryFormat::Contiguous);
}

at::Tensor joinable(const at::Tensor& out, int64_t dim) {
  if (out.size(3) == dim && out.transpose(1, 2).is_contiguous()) return out;
  at::Tensor copy = empty_joinable({out.size(0), out.size(1), out.size(2), dim}, out.options());
  copy.copy_(out.narrow(3, 0, dim));
  return copy;
}

AttentionResult empty_result(const at::Tensor& q, AttentionWant want) {
  const auto state = q.options().dtype(state_type(q.scalar_type()));
  const auto rows = q.sizes().slice(0, 3);
  AttentionResult result;
  if (want == AttentionWant::state) {
    result.m = at::empty(rows, state);
    result.s = at::empty(rows, state);
    result.w = empty_joinable(q.sizes(), state);
  } else {
    result.out = empty_joinable(q.sizes(), q.options());
    if (want == AttentionWant::output_lse) result.lse = at::empty(rows, state);
  }
  return result;
}

AttentionResult slice_result(const AttentionResult& result, int64_t dim, int64_t first, int64_t count) {
  AttentionResult slice;
  for (auto member : kMembers) {
    if ((result.*member).defined()) slice.*member = (result.*member).narrow(dim, first, count);
  }
  return slice;
}

void copy_result(const AttentionResult& to, const AttentionResult& from) {
  for (auto member : kMembers) {
    if ((to.*member).defined()) (to.*member).copy_(from.*member);
  }
}

void merge_into(AttentionResult& state, const AttentionResult& other) {
  TORCH_CHECK(state.m.defined() && other.m.defined(),
              "merge_states: expected two states, got a result without m, s, w");
  TORCH_CHECK(state.w.sizes() == other.w.sizes() && state.w.scalar_type() == other.w.scalar_type(),
              "merge_states: expected states of one shape and type, got ", state.w.sizes(), " and ",
              other.w.sizes());
  const at::Tensor m = at::fmax(state.m, other.m);  // [B,A,N]
  const at::Tensor anchor = finite_anchor(m);
  const at::Tensor own = at::exp(state.m - anchor), others = at::exp(other.m - anchor);
  state.m.copy_(m);
  state.s.mul_(own).addcmul_(other.s, others);
  state.w.mul_(own.unsqueeze(-1)).addcmul_(other.w, others.unsqueeze(-1));
}

AttentionResult merge_states(const AttentionResult& a, const AttentionResult& b) {
  TORCH_CHECK(a.m.defined(), "merge_states: expected two states, got a result without m, s, w");
  AttentionResult both;
  both.m = a.m.clone();
  both.s = a.s.clone();
  both.w = empty_joinable(a.w.sizes(), a.w.options());  // [B,A,N,D]
  both.w.copy_(a.w);
  merge_into(both, b);
  return both;
}

AttentionResult finalise_own(AttentionResult state, at::ScalarType type) {
  TORCH_CHECK(state.m.defined(), "finalise_state: expected a state, got a result without m, s, w");
  const at::Tensor empty = state.s == 0;
  AttentionResult result;
  result.lse = (state.m + state.s.log()).masked_fill(empty, -kInfinity);
  state.w.div_(state.s.masked_fill(empty, 1).unsqueeze(-1));
  result.out = joinable(state.w, state.w.size(3)).to(type);
  return result;
}

AttentionResult finalise_state(const AttentionResult& state, at::ScalarType type) {
  AttentionResult copy = state;
  if (state.w.defined()) copy.w = state.w.clone();
  return finalise_own(std::move(copy), type);
}

}  // namespace vggt
