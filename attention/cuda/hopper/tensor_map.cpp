#include "attention/cuda/hopper/tensor_map.h"

#include <cudaTypedefs.h>

namespace vggt {
namespace {

// The driver's function, found at run time: nothing links to libcuda.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) cudaGetLastError();  // or LibTorch would report it at its next launch, as its own
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

cudaError_t make_tensor_map(CUtensorMap& map, CUtensorMapDataType type, const void* data,
                            const AttentionStrides& strides, const TensorBox& box) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
  if (!encode) return cudaErrorNotSupported;
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(box.dim), static_cast<cuuint64_t>(box.tokens),
                               static_cast<cuuint64_t>(box.heads), static_cast<cuuint64_t>(box.batch)};
  // Along a dimension of size 1 torch leaves any number.
  auto step = [&](int size, int64_t elements) {
    return 2 * static_cast<cuuint64_t>(size == 1 ? box.dim : elements);
  };
  const cuuint64_t bytes[3] = {step(box.tokens, strides.token), step(box.heads, strides.head),
                               step(box.batch, strides.batch)};
  const cuuint32_t extent[4] = {64, static_cast<cuuint32_t>(box.rows), 1, 1}, dense[4] = {1, 1, 1, 1};
  const CUresult result = encode(&map, type, 4, const_cast<void*>(data), sizes, bytes, extent, dense,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace vggt
