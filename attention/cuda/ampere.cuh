#pragma once
// Instructions of sm_80 and later that CUDA C++ has no names for: asynchronous copies, loads of matrix
// fragments and mma. Addresses are 32-bit ones of shared memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "attention/cuda/swizzle.h"

namespace vggt::ampere {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// Copies 16 bytes to shared memory, or zeros where `present` is false.
__device__ __forceinline__ void copy_unit(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0)
               : "memory");
}

/// Fragments of four 8×8 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_fragments(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

/// d [16,8] += a [16,16] · b [16,8].
template <class T>
__device__ __forceinline__ void multiply(float* d, const uint32_t* a, const uint32_t* b) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// The address of number `column` (a multiple of 8) of row `row`, in a matrix with kRows rows: blocks of 64
/// columns, swizzled as swizzle.h says.
template <int kRows>
__device__ __forceinline__ uint32_t unit(uint32_t matrix, int row, int column) {
  return matrix + column_offset(column / 64 * 64, kRows) + swizzled_offset(row, column % 64 * 2);
}

/// The address for the fragment `row` rows and `column` columns on, multiples of 16, in a matrix with kRows
/// rows.
template <int kRows>
__device__ __forceinline__ uint32_t fragment(uint32_t first, int row, int column) {
  return (first ^ column % 64 * 2) + column_offset(column / 64 * 64, kRows) + row * kRowBytes;
}

/// d [16,16] += a [16,16] · b [16,16].
template <class T>
__device__ __forceinline__ void multiply_square(float* d, const uint32_t* a, const uint32_t* b) {
  multiply<T>(d, a, b);
  multiply<T>(d + 4, a, b + 2);
}

/// Closes a group of copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Returns once at most this many of the closed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace vggt::ampere
