#include "attention/cuda/built_code.h"

namespace vggt {

std::optional<cudaFuncAttributes> built_code(const void* kernel) {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) return attributes;
  cudaGetLastError();  // or LibTorch would report the error at its next launch, as its own
  return std::nullopt;
}

}  // namespace vggt
