#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "io/archives/torch_archive.h"
#include "tests/fuzz/check_index.h"

// With FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION checksums do not stop the fuzzer at the first changed byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check_index(vggt::read_torch_archive(vggt::memory_source(std::as_bytes(std::span(data, size)))), size);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
