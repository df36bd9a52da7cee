#pragma once
// The CPU kernels, one per instruction set, of fp32 but for the one named bf16. Each computes one (sequence,
// head, block of queries) at a time.

#include "attention/params.h"

namespace vggt {

/// A block of queries of one sequence and head against all keys of the call. Strides are those of the call.
struct CpuTask {
  const void *q = nullptr, *k = nullptr,
             *v = nullptr;  // [queries,D], [keys,D], [keys,D] in the kernel's type
  int64_t queries = 0, keys = 0;
  int64_t sequence = 0;                              // queries of all its blocks
  void* out = nullptr;                               // [queries,D] in the kernel's type, or null
  float* w = nullptr;                                // [queries,D] or null
  float *lse = nullptr, *m = nullptr, *s = nullptr;  // [queries] or null
  float* rounded = nullptr;                          // [queries] or null
};

/// Runs one task. scratch: cpu_scratch_floats() floats, aligned to 64 bytes, private to the thread.
using CpuKernel = void (*)(const AttentionParams& p, const CpuTask& task, float* scratch);

void attend_baseline(const AttentionParams& p, const CpuTask& task, float* scratch);
void attend_avx2(const AttentionParams& p, const CpuTask& task, float* scratch);
void attend_avx512(const AttentionParams& p, const CpuTask& task, float* scratch);
void attend_avx512_bf16(const AttentionParams& p, const CpuTask& task, float* scratch);  // of bf16

/// Keys of a tile, which a call's sums go by: the scores of a row tile (18 KB) and a panel of values (12 KB)
/// share the L1.
constexpr int64_t kKeyTile = 192;
constexpr int64_t kRowTile = 24;  // queries whose scores are held at a time: a multiple of every micro-tile
constexpr int64_t kMaxLanePadding = 32;  // widths are padded to at most this

/// Floats of scratch, in fp32 (bf16 needs no more), for tasks of up to `block` queries of width `dim`.
constexpr int64_t cpu_scratch_floats(int64_t block, int64_t dim) {
  const int64_t wide = (dim + kMaxLanePadding - 1) / kMaxLanePadding * kMaxLanePadding;
  const int64_t per_query = dim + wide + 3, per_key = dim + wide;
  return block * per_query + kKeyTile * per_key + kRowTile * (kKeyTile + 1) + 8 * 16;
}

}  // namespace vggt
