// The CPU kernel of bf16 for AVX512-BF16: one instruction multiplies sixteen pairs and adds to sums in fp32.
// It takes numbers below 2^-126 for 0.
#include "attention/cpu/cpu_tile.h"
#include "attention/cpu/cpu_vector_avx512.h"

namespace vggt {
namespace {

struct Vector : Avx512 {
  using Element = uint16_t;  // the bits of a bf16
  static constexpr int kPerWord = 2;

  static Reg dot_pairs(Reg a, Reg b, Reg c) {
    return {_mm512_dpbf16_ps(c.r, reinterpret_cast<__m512bh>(a.r), reinterpret_cast<__m512bh>(b.r))};
  }
  /// The numbers of a, then of b, rounded, two in a word.
  static Reg pairs(Reg a, Reg b) { return {reinterpret_cast<__m512>(_mm512_cvtne2ps_pbh(b.r, a.r))}; }
  /// Of columns [count] two rows, the second of zeros where null, as words [2·kLanes], filled up with zeros.
  static void pair_rows(const Element* row, const Element* next, int64_t count, float* to) {
    const __mmask32 mask = first_of(count);
    const __m512i low = _mm512_maskz_loadu_epi16(mask, row);
    const __m512i high = next ? _mm512_maskz_loadu_epi16(mask, next) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, interleaved(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high)));
    _mm512_storeu_si512(to + kLanes,
                        interleaved(_mm512_extracti64x4_epi64(low, 1), _mm512_extracti64x4_epi64(high, 1)));
  }
  /// Rounds w [count, padded to 2·kLanes] times the factor.
  static void round_row(const float* w, float factor, int64_t count, Element* to) {
    const Reg by = set(factor);
    for (int64_t d = 0; d < count; d += 2 * kLanes) {
      const Reg both = pairs(mul(load(w + d), by), mul(load(w + d + kLanes), by));
      const int64_t rest = count - d < 2 * kLanes ? count - d : 2 * kLanes;
      _mm512_mask_storeu_epi16(to + d, first_of(rest), _mm512_castps_si512(both.r));
    }
  }

 private:
  static __mmask32 first_of(int64_t count) { return static_cast<__mmask32>((uint64_t{1} << count) - 1); }
  static __m512i interleaved(__m256i low, __m256i high) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  }
};

}  // namespace

void attend_avx512_bf16(const AttentionParams& p, const CpuTask& task, float* scratch) {
  tile::attend<Vector>(p, task, scratch);
}

}  // namespace vggt
