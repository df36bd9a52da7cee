#pragma once
// Vector operations in AVX-512F, for the kernels of fp32 and of bf16: twelve queries by thirty-two columns
// take 27 of the 32 registers.

#include <immintrin.h>

#include <cstdint>

#include "attention/cpu/cpu_transpose.h"

namespace vggt {
namespace {  // each kernel has its own copy, in its own instruction set

struct Avx512 {
  struct Reg {
    __m512 r;
  };
  static constexpr int kLanes = 16, kRows = 12;

  static Reg set(float x) { return {_mm512_set1_ps(x)}; }
  static Reg load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static void store(float* p, Reg a) { _mm512_storeu_ps(p, a.r); }
  static Reg add(Reg a, Reg b) { return {_mm512_add_ps(a.r, b.r)}; }
  static Reg sub(Reg a, Reg b) { return {_mm512_sub_ps(a.r, b.r)}; }
  static Reg mul(Reg a, Reg b) { return {_mm512_mul_ps(a.r, b.r)}; }
  static Reg mul_add(Reg a, Reg b, Reg c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
  static Reg mul_sub(Reg a, Reg b, Reg c) { return {_mm512_fmsub_ps(a.r, b.r, c.r)}; }
  /// The larger of a and b; b where one of them is NaN.
  static Reg max(Reg a, Reg b) { return {_mm512_max_ps(a.r, b.r)}; }
  static float sum(Reg a) { return _mm512_reduce_add_ps(a.r); }
  static float largest(Reg a) { return _mm512_reduce_max_ps(a.r); }
  /// 2^n from n + 1.5·2^23, n in [-127, 127]; 0 for -127.
  static Reg power_of_two(Reg shifted) {
    const __m512i biased = _mm512_add_epi32(_mm512_castps_si512(shifted.r), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
  }
  /// Sixteen rows of sixteen words of 32 bits to columns. from_step: in elements of T.
  template <class T>
  static void transpose(const T* from, int64_t from_step, float* to, int64_t to_step) {
    constexpr int64_t kPerWord = sizeof(float) / sizeof(T);
    for (int i = 0; i < kLanes; i += 8) {
      for (int j = 0; j < kLanes; j += 8) {
        transpose_8x8(from + i * from_step + j * kPerWord, from_step, to + j * to_step + i, to_step);
      }
    }
  }
};

}  // namespace
}  // namespace vggt
