#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include "io/archives/torch_archive.h"
#include "io/archives/zip_archive.h"
#include "tests/fuzz/check_index.h"

// A pickle as data.pkl of an archive with a few records, without the zip around it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::map<std::string, vggt::ZipEntry> kDirectory = {
      {"data/0", {64, 4096, 0, false}}, {"data/1", {8192, 64, 0, false}}, {"data/2", {16384, 64, 0, true}}};
  try {
    check_index(vggt::read_torch_pickle(std::as_bytes(std::span(data, size)), kDirectory), 16384 + 64);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  return 0;
}
