#pragma once
// wgmma: a warpgroup computes D += A·B for 64 rows, of fp16 or bf16 numbers, with fp32 accumulators in
// registers (fragment_row() and fragment_column() say which). It is asynchronous: see wgmma_fence(),
// _commit(), _wait() and pin().

#include <cuda_bf16.h>

#include <type_traits>

#include "attention/cuda/hopper/hopper.cuh"

namespace vggt::hopper {

// The inline assembly wants every register named, so each width is spelled out.
#define VGGT_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define VGGT_NAMES_16 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VGGT_NAMES_32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define VGGT_NAMES_48 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VGGT_NAMES_64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define VGGT_NAMES_80 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define VGGT_NAMES_96 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define VGGT_NAMES_112 \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define VGGT_NAMES_TO_32 VGGT_NAMES_0 ", " VGGT_NAMES_16
#define VGGT_NAMES_TO_64 VGGT_NAMES_TO_32 ", " VGGT_NAMES_32 ", " VGGT_NAMES_48
#define VGGT_NAMES_TO_96 VGGT_NAMES_TO_64 ", " VGGT_NAMES_64 ", " VGGT_NAMES_80
#define VGGT_NAMES_TO_128 VGGT_NAMES_TO_96 ", " VGGT_NAMES_96 ", " VGGT_NAMES_112
#define VGGT_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define VGGT_D16(i) VGGT_D4(i), VGGT_D4(i + 4), VGGT_D4(i + 8), VGGT_D4(i + 12)
#define VGGT_D32 VGGT_D16(0), VGGT_D16(16)
#define VGGT_D64 VGGT_D32, VGGT_D16(32), VGGT_D16(48)
#define VGGT_D96 VGGT_D64, VGGT_D16(64), VGGT_D16(80)
#define VGGT_D128 VGGT_D96, VGGT_D16(96), VGGT_D16(112)

#define VGGT_WGMMA(shape, type, names, operands, flag, tail)                                         \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " flag                                                           \
  ", 0;\n"                                                                                           \
  "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" names "}, " operands ", p, " tail \
  ";\n}\n"

// a and b: descriptors of A [64,16] and B [N,16], both with 16 contiguous; accumulate = 0: D = A·B.
#define VGGT_WGMMA_SHARED(count, shape, a_name, b_name, flag)                                               \
  template <class T>                                                                                        \
  __device__ __forceinline__ void multiply(float(&d)[count], uint64_t a, uint64_t b, int accumulate) {      \
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {                                                       \
      asm volatile(VGGT_WGMMA(shape, "bf16", VGGT_NAMES_TO_##count, a_name ", " b_name, flag, "1, 1, 0, 0") \
                   : VGGT_D##count                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate));                                                      \
    } else {                                                                                                \
      asm volatile(VGGT_WGMMA(shape, "f16", VGGT_NAMES_TO_##count, a_name ", " b_name, flag, "1, 1, 0, 0")  \
                   : VGGT_D##count                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate));                                                      \
    }                                                                                                       \
  }
VGGT_WGMMA_SHARED(32, "m64n64k16", "%32", "%33", "%34")
VGGT_WGMMA_SHARED(64, "m64n128k16", "%64", "%65", "%66")
VGGT_WGMMA_SHARED(96, "m64n192k16", "%96", "%97", "%98")
VGGT_WGMMA_SHARED(128, "m64n256k16", "%128", "%129", "%130")

// A [64,16] in registers, packed pairs laid out as accumulators 0..7; b: descriptor of B [16,N] with N
// contiguous.
#define VGGT_WGMMA_REGISTERS(count, shape, a_names, b_name, flag)                                      \
  template <class T>                                                                                   \
  __device__ __forceinline__ void multiply_transposed(float(&d)[count], const uint32_t* a, uint64_t b, \
                                                      int accumulate) {                                \
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {                                                  \
      asm volatile(                                                                                    \
          VGGT_WGMMA(shape, "bf16", VGGT_NAMES_TO_##count, "{" a_names "}, " b_name, flag, "1, 1, 1")  \
          : VGGT_D##count                                                                              \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                      \
    } else {                                                                                           \
      asm volatile(                                                                                    \
          VGGT_WGMMA(shape, "f16", VGGT_NAMES_TO_##count, "{" a_names "}, " b_name, flag, "1, 1, 1")   \
          : VGGT_D##count                                                                              \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                      \
    }                                                                                                  \
  }
VGGT_WGMMA_REGISTERS(32, "m64n64k16", "%32, %33, %34, %35", "%36", "%37")
VGGT_WGMMA_REGISTERS(64, "m64n128k16", "%64, %65, %66, %67", "%68", "%69")

}  // namespace vggt::hopper
