#pragma once
// Products of joined rows, without a copy that joins them first. Free of torch.

#include <cuda_runtime_api.h>

#include "model/layers/joined_rows.h"

namespace vggt {

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
