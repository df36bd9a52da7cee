#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "tests/fuzz/check_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    vggt::check_config(std::as_bytes(std::span(data, size)));
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
