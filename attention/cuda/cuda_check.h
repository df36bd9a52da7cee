#pragma once
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

namespace vggt {

/// Throws c10::Error for an error of CUDA's runtime, such as "linear: splitting rows: out of memory".
class CudaCheck {
 public:
  explicit constexpr CudaCheck(const char* operation) : operation_(operation) {}

  void operator()(cudaError_t error, const char* what) const {
    // Left there, LibTorch would report it at its next launch, as its own.
    if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
    TORCH_CHECK(error == cudaSuccess, operation_, ": ", what, ": ", cudaGetErrorString(error));
  }

 private:
  const char* operation_;
};

}  // namespace vggt
