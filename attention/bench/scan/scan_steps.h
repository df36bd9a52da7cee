#pragma once
// Prefix scans over states (m, S, W): the steps of each form, for host and device alike. Torch-free.
//
// Note [Lanes]: a step is a loop whose turns are independent. lanes.each(n, f) calls f(i) once for every i in
// [0, n), in any order, and returns when all are done: a loop on the host, the threads of a block and a
// barrier on the device. All loops of a step run on the same lanes.

#include "attention/state.h"

namespace vggt {

/// The lanes of the host: one after another.
struct HostLanes {
  template <class F>
  VGGT_HOST_DEVICE void each(int n, F f) const {
    for (int i = 0; i < n; ++i) f(i);
  }
};

VGGT_HOST_DEVICE constexpr int power_of_two_from(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

/// Inclusive prefixes in place, one after another, starting with `before`; returns the last. at(i): state i.
template <class State, class At>
VGGT_HOST_DEVICE State recurrence(State before, int n, At at) {
  for (int i = 0; i < n; ++i) {
    before = merge(before, at(i));
    at(i) = before;
  }
  return before;
}

/// Inclusive prefixes by Hillis and Steele: ceil(log2 n) levels, n·log2 n merges. Both buffers hold n states;
/// returns the one with the result.
template <class Lanes, class State>
VGGT_HOST_DEVICE State* hillis_steele(const Lanes& lanes, State* x, State* other, int n) {
  for (int reach = 1; reach < n; reach *= 2) {
    const State* from = x;
    State* to = other;
    lanes.each(n, [=](int i) { to[i] = i < reach ? from[i] : merge(from[i - reach], from[i]); });
    other = x;
    x = to;
  }
  return x;
}

/// Exclusive prefixes in place by Blelloch: up-sweep and down-sweep, 2·log2 n levels, 2·n merges.
/// n: a power of two; the caller fills up with identities.
template <class Lanes, class State>
VGGT_HOST_DEVICE void blelloch(const Lanes& lanes, State* x, int n) {
  for (int reach = 1; reach < n; reach *= 2) {
    lanes.each(n / (2 * reach), [=](int k) {
      const int right = (k + 1) * 2 * reach - 1;
      x[right] = merge(x[right - reach], x[right]);
    });
  }
  lanes.each(1, [=](int) { x[n - 1] = State(); });
  for (int reach = n / 2; reach >= 1; reach /= 2) {
    lanes.each(n / (2 * reach), [=](int k) {
      const int right = (k + 1) * 2 * reach - 1;
      const State left = x[right - reach];
      x[right - reach] = x[right];
      x[right] = merge(x[right], left);
    });
  }
}

}  // namespace vggt
