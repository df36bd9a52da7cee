#pragma once

// VGGT_CLONES before a function that is a plain loop: the compiler makes a copy of it for each of these
// instruction sets, but not for sanitizers: the function that chooses a copy runs before they are ready.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VGGT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VGGT_CLONES
#endif
