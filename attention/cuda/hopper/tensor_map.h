#pragma once
// Descriptions of tensors for Hopper's copy engine.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "attention/params.h"

namespace vggt {

/// A tensor [B,A,N,D] of 16-bit numbers, of which boxes of `rows` tokens × 64 columns are copied.
struct TensorBox {
  int batch = 0, heads = 0, tokens = 0, dim = 0;
  int rows = 0;
};

/// Boxes swizzled by 128 bytes, zeros beyond the ends. Fails with cudaErrorInvalidValue for a base or strides
/// that are not multiples of 16 bytes.
cudaError_t make_tensor_map(CUtensorMap& map, CUtensorMapDataType type, const void* data,
                            const AttentionStrides& strides, const TensorBox& box);

}  // namespace vggt
