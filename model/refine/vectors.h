#pragma once
#include <cstdint>

// Sixteen numbers at once, of which the compiler makes the processor's vectors. What takes or returns them is
// always inlined into a function with VGGT_CLONES, lambdas too: each instruction set hands them on
// differently.
#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wpsabi"  // of vectors that functions hand on: all of these are inlined
#endif

namespace vggt {

inline constexpr int kLanes = 16;
using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Words [[gnu::vector_size(kLanes * sizeof(int32_t))]] = int32_t;

[[gnu::always_inline]] inline Floats all(float value) {
  return Floats{} + value;
}
/// b where a is no number.
[[gnu::always_inline]] inline Floats greater(const Floats& a, const Floats& b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline Floats smaller(const Floats& a, const Floats& b) {
  return a < b ? a : b;
}

/// The nearest whole numbers, of halves the even ones; of numbers up to 2²².
[[gnu::always_inline]] inline Floats rounded(const Floats& x) {
  constexpr float kRound = 12582912.F;  // 1.5·2²³: what is added to it loses its fraction
  return (x + kRound) - kRound;
}
[[gnu::always_inline]] inline Words words_of(const Floats& x) {
  return __builtin_convertvector(x, Words);
}

// exp and log as polynomials, exact to some units in the last place.
[[gnu::always_inline]] inline Floats exp_of(const Floats& x) {
  const Floats bound = smaller(all(88), greater(all(-87), x)),  // what is no number stays
      n = rounded(bound * 1.44269504F), r = (bound - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats p = all(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  return p * reinterpret_cast<Floats>((words_of(n) + 127) << 23);
}

/// Of numbers above 0.
[[gnu::always_inline]] inline Floats log_of(const Floats& x) {
  const Words bits = reinterpret_cast<Words>(x),
              exponent = (bits - 0x3f3504f3) >> 23;  // so that the rest lies between √½ and √2
  const Floats r = reinterpret_cast<Floats>(bits - (exponent << 23)) - 1, square = r * r,
               n = __builtin_convertvector(exponent, Floats);
  Floats p = all(7.0376836292e-2F);
  p = p * r - 1.1514610310e-1F;
  p = p * r + 1.1676998740e-1F;
  p = p * r - 1.2420140846e-1F;
  p = p * r + 1.4249322787e-1F;
  p = p * r - 1.6668057665e-1F;
  p = p * r + 2.0000714765e-1F;
  p = p * r - 2.4999993993e-1F;
  p = p * r + 3.3333331174e-1F;
  return r + (r * square * p - 0.5F * square - n * 2.12194440e-4F) + n * 0.693359375F;
}

}  // namespace vggt
