#pragma once
#include <cstdint>
#include <cstdlib>

#include "io/tensors/tensor_index.h"

// Aborts unless every element of every tensor lies inside the file: what a parser accepts must be safe to
// read.
inline void check_index(const vggt::TensorIndex& index, uint64_t file_bytes) {
  for (const auto& [name, tensor] : index.tensors) {
    __uint128_t last = 0, count = 1;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] < 0 || tensor.strides.at(i) < 0) std::abort();
      count *= static_cast<uint64_t>(tensor.shape[i]);
      if (count > file_bytes) std::abort();
      if (tensor.shape[i] > 0) last += static_cast<__uint128_t>(tensor.shape[i] - 1) * tensor.strides[i];
    }
    const uint64_t bytes = vggt::element_bytes(tensor.type);
    if (count > 0 && tensor.offset + (last + 1) * bytes > file_bytes) std::abort();
    if (name.empty() || tensor.strides.size() != tensor.shape.size()) std::abort();
  }
}
