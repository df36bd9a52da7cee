#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/check_batch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  vggt::check_batch(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
