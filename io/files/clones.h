#pragma once

// VGGT_CLONES before a function that is a plain loop: the compiler makes a copy of it for each of these
// instruction sets, but not for sanitizers: the function that chooses a copy runs before they are ready.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VGGT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VGGT_CLONES
#endif

// VGGT_AVX512 before a function: it is compiled for AVX-512 where there is that, and may be called where
// runs_avx512().
#if defined(__x86_64__) && defined(__GNUC__)
#define VGGT_AVX512 __attribute__((target("avx512f")))
#else
#define VGGT_AVX512
#endif

namespace vggt {

inline bool runs_avx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

}  // namespace vggt
