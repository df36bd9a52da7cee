#pragma once
#include <cstdint>

#include "attention/params.h"

namespace vggt {

/// Each with those before it. avx512_bf16: what bf16 needs without conversions.
enum class CpuIsa { baseline, avx2, avx512, avx512_bf16 };

/// How a call is divided into tasks. It changes speed only.
struct CpuPolicy {
  CpuIsa isa = CpuIsa::baseline;
  int threads = 1;
  int64_t block = 1;   // queries per task: they share the packed key tiles
  int64_t blocks = 1;  // tasks per (sequence, head)
  int64_t grain = 1;   // tasks a thread takes at a time
};

/// The policy for the sizes of p on a machine with this instruction set and number of threads. Pure.
CpuPolicy choose_cpu_policy(const AttentionParams& p, CpuIsa isa, int threads);

}  // namespace vggt
