#pragma once
// Transposition of a tile in AVX registers, for the AVX2 and the AVX-512 kernel.

#include <immintrin.h>

#include <cstdint>

namespace vggt {

/// Eight rows of eight words of 32 bits to columns. from_step: in elements of T. static: each kernel has its
/// own copy, in its own instruction set.
template <class T>
static inline void transpose_8x8(const T* from, int64_t from_step, float* to, int64_t to_step) {
  __m256 r[8], t[8];
  for (int i = 0; i < 4; ++i) {
    // Lower and upper half: columns 0-3 of rows i and i + 4, then columns 4-7.
    const auto* low = reinterpret_cast<const float*>(from + i * from_step);
    const auto* high = reinterpret_cast<const float*>(from + (i + 4) * from_step);
    r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
    r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low + 4)), _mm_loadu_ps(high + 4), 1);
  }
  for (int half = 0; half < 8; half += 4) {
    t[0] = _mm256_unpacklo_ps(r[half], r[half + 1]);
    t[1] = _mm256_unpackhi_ps(r[half], r[half + 1]);
    t[2] = _mm256_unpacklo_ps(r[half + 2], r[half + 3]);
    t[3] = _mm256_unpackhi_ps(r[half + 2], r[half + 3]);
    _mm256_storeu_ps(to + (half + 0) * to_step, _mm256_shuffle_ps(t[0], t[2], 0x44));
    _mm256_storeu_ps(to + (half + 1) * to_step, _mm256_shuffle_ps(t[0], t[2], 0xee));
    _mm256_storeu_ps(to + (half + 2) * to_step, _mm256_shuffle_ps(t[1], t[3], 0x44));
    _mm256_storeu_ps(to + (half + 3) * to_step, _mm256_shuffle_ps(t[1], t[3], 0xee));
  }
}

}  // namespace vggt
