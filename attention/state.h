#pragma once
// The state of a query over a set of keys, and its merge: the one algebra behind every partition of the keys.
// Torch-free, for host and device alike.

#include <math.h>

#if defined(__CUDACC__)
#define VGGT_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Always inlined: the CPU kernels include this with different instruction sets, and an out-of-line copy of
// one must not be linked into another.
#define VGGT_HOST_DEVICE [[gnu::always_inline]] inline
#endif

namespace vggt {

VGGT_HOST_DEVICE float exp_of(float x) {
  return ::expf(x);
}
VGGT_HOST_DEVICE double exp_of(double x) {
  return ::exp(x);
}
/// On the device one instruction: relative error 2e-7 at most, results below 2^-126 become 0.
VGGT_HOST_DEVICE float exp2_of(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return ::exp2f(x);
#endif
}
VGGT_HOST_DEVICE float log_of(float x) {
  return ::logf(x);
}
VGGT_HOST_DEVICE double log_of(double x) {
  return ::log(x);
}

/// The finite number to subtract from logits whose maximum is m: m itself, or 0 where m is -inf, so that
/// -inf - (-inf) never arises and exp gives 0 there.
template <class T>
VGGT_HOST_DEVICE T anchor(T m) {
  return m == -static_cast<T>(INFINITY) ? T(0) : m;
}

/// The larger maximum. A number wins over NaN, whose row has s and w of NaN anyway.
template <class T>
VGGT_HOST_DEVICE T joint_max(T a, T b) {
  return a > b || b != b ? a : b;
}

/// The factor that turns sums relative to the maximum `from` into sums relative to the joint maximum `to`:
/// exp(scale·(from - to)), and 0 for the identity. scale: of the logits, > 0, where the maxima are unscaled.
template <class T>
VGGT_HOST_DEVICE T shift(T from, T to, T scale = T(1)) {
  return exp_of(scale * (from - anchor(to)));
}

/// shift() of maxima in base 2, that is, of maxima times log2(e).
VGGT_HOST_DEVICE float shift2(float from, float to) {
  return exp2_of(from - anchor(to));
}

/// (m, S, W) over a set of keys: the maximum logit, the sum of exp(logit - m), the sum of exp(logit - m)·v.
/// Default: the identity, the state over no keys. D: the width of v.
template <class T, int D>
struct SoftmaxState {
  T m = -static_cast<T>(INFINITY);
  T s = 0;
  T w[D] = {};

  /// The state over the single key with this logit and value [D].
  VGGT_HOST_DEVICE static SoftmaxState of(T logit, const T* v) {
    SoftmaxState one;
    one.m = logit;
    one.s = exp_of(logit - anchor(logit));
    for (int i = 0; i < D; ++i) one.w[i] = one.s * v[i];
    return one;
  }
};

/// The state over the union of two disjoint sets of keys. Associative, commutative, not idempotent.
/// scale: as in shift(); ln 2 for maxima in base 2.
template <class T, int D>
VGGT_HOST_DEVICE SoftmaxState<T, D> merge(const SoftmaxState<T, D>& a, const SoftmaxState<T, D>& b,
                                          T scale = T(1)) {
  SoftmaxState<T, D> both;
  both.m = joint_max(a.m, b.m);
  const T fa = shift(a.m, both.m, scale), fb = shift(b.m, both.m, scale);
  both.s = a.s * fa + b.s * fb;
  for (int i = 0; i < D; ++i) both.w[i] = a.w[i] * fa + b.w[i] * fb;
  return both;
}

/// 1/S, the factor that turns W into the output; 0 for a state without keys, whose output is 0.
template <class T>
VGGT_HOST_DEVICE T normaliser(T s) {
  return s == T(0) ? T(0) : T(1) / s;
}

/// log of the sum of exp(logit): -inf for a state without keys.
template <class T>
VGGT_HOST_DEVICE T log_sum_exp(T m, T s) {
  return s == T(0) ? -static_cast<T>(INFINITY) : m + log_of(s);
}

/// The attention output W/S [D].
template <class T, int D>
VGGT_HOST_DEVICE void finalise(const SoftmaxState<T, D>& state, T* out) {
  const T factor = normaliser(state.s);
  for (int i = 0; i < D; ++i) out[i] = state.w[i] * factor;
}

}  // namespace vggt
