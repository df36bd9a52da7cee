#pragma once
#include <cstddef>

#include "io/tensors/tensor_index.h"

namespace vggt {

/// Whether tensor_value() can read it: F64, F32, F16, BF16.
bool is_real(ElementType type);
/// Element i of little-endian values, of a type for which is_real() holds.
float tensor_value(ElementType type, const std::byte* data, std::size_t i);

}  // namespace vggt
