#pragma once
// Products of rows whose columns lie in several matrices side by side, as the ranks of a group send each
// other their heads: no copy joins them first. Free of torch.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace vggt {

inline constexpr int kMostJoined = 16;  // matrices

struct JoinedRows {
  const void* data[kMostJoined] = {};  // each [rows, its columns], contiguous, aligned to 16 bytes
  int begins[kMostJoined + 1] = {};    // the first column of each, and the number of all
  int parts = 0, rows = 0;
};

/// out = x·weightᵀ + bias of bf16 or fp16 numbers, summed in fp32.
struct JoinedGemm {
  JoinedRows x;                  // columns of each part: a multiple of kJoinedColumns
  const void* weight = nullptr;  // [N,K], contiguous, aligned to 16 bytes
  const void* bias = nullptr;    // [N], aligned to 4 bytes
  void* out = nullptr;           // [M,N], aligned to 16 bytes
  int outputs = 0;               // N, a multiple of 8
  bool bf16 = false;
};
inline constexpr int kJoinedColumns = 64;

/// Only where sm90a_built().
cudaError_t joined_gemm_sm90(const JoinedGemm& gemm, cudaStream_t stream);

}  // namespace vggt
