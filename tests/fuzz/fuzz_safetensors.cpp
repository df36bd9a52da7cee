#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "io/tensors/safetensors.h"
#include "tests/fuzz/check_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check_index(vggt::read_safetensors(std::as_bytes(std::span(data, size))), size);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
