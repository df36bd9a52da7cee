#pragma once
#include <cstddef>
#include <span>

#include "io/tensors/tensor_index.h"

namespace vggt {

/// The tensors of a .safetensors file (8 bytes header size, JSON header, data without gaps or overlaps), and
/// the text `config.json` of its metadata if it has one. Throws std::invalid_argument saying what is wrong.
WeightIndex read_safetensors(std::span<const std::byte> file);

}  // namespace vggt
