#include <cstdint>
#include <span>
#include <stdexcept>

#include "tests/fuzz/check_image_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    vggt::check_image_header(std::as_bytes(std::span(data, size)));
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
