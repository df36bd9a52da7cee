#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace vggt {

/// Whether a tensor begins where kernels may load 16 bytes at once.
inline bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

}  // namespace vggt
