// The CPU kernel for AVX2 and FMA: six queries by sixteen columns fill the sixteen registers.
#include <immintrin.h>

#include "attention/cpu/cpu_tile.h"
#include "attention/cpu/cpu_transpose.h"

namespace vggt {
namespace {

struct Vector : tile::Fp32Operands {
  struct Reg {
    __m256 r;
  };
  static constexpr int kLanes = 8, kRows = 6;

  static Reg set(float x) { return {_mm256_set1_ps(x)}; }
  static Reg load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static void store(float* p, Reg a) { _mm256_storeu_ps(p, a.r); }
  static Reg add(Reg a, Reg b) { return {_mm256_add_ps(a.r, b.r)}; }
  static Reg sub(Reg a, Reg b) { return {_mm256_sub_ps(a.r, b.r)}; }
  static Reg mul(Reg a, Reg b) { return {_mm256_mul_ps(a.r, b.r)}; }
  static Reg mul_add(Reg a, Reg b, Reg c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
  static Reg mul_sub(Reg a, Reg b, Reg c) { return {_mm256_fmsub_ps(a.r, b.r, c.r)}; }
  /// The larger of a and b; b where one of them is NaN.
  static Reg max(Reg a, Reg b) { return {_mm256_max_ps(a.r, b.r)}; }
  static float sum(Reg a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  static float largest(Reg a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  /// 2^n from n + 1.5·2^23, n in [-127, 127]; 0 for -127.
  static Reg power_of_two(Reg shifted) {
    const __m256i biased = _mm256_add_epi32(_mm256_castps_si256(shifted.r), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
  }
  static void transpose(const float* from, int64_t from_step, float* to, int64_t to_step) {
    transpose_8x8(from, from_step, to, to_step);
  }
};

}  // namespace

void attend_avx2(const AttentionParams& p, const CpuTask& task, float* scratch) {
  tile::attend<Vector>(p, task, scratch);
}

}  // namespace vggt
