#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/tensors/tensor_index.h"

namespace vggt {

/// The tensors of a .safetensors file, and the text `config.json` of its metadata if it has one. The file:
/// the size of the header in 8 bytes, the header in JSON, the data without gaps or overlaps. Throws
/// std::invalid_argument saying what is wrong.
TensorIndex read_safetensors(std::span<const std::byte> file);

/// What a .safetensors file begins with, and where its tensors lie.
struct SafetensorsHeader {
  std::string bytes;              // the size of the JSON, the JSON, blanks up to a multiple of 8
  std::vector<uint64_t> offsets;  // of the tensors in the file, in the order of the descriptions
  uint64_t file_bytes = 0;
};

/// The header of a .safetensors file whose tensors lie in this order, without gaps. `metadata`: keys and
/// texts for `__metadata__`, in this order. Throws std::invalid_argument: a name or a text that is not UTF-8,
/// a shape that checked_count() refuses.
SafetensorsHeader make_safetensors_header(std::span<const TensorDescription> tensors,
                                          std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace vggt
