#include "io/files/content_sum.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "io/files/crc32.h"
#include "io/files/input_file.h"

namespace vggt {

std::string content_sum(const std::filesystem::path& path) {
  constexpr uint64_t kParts = 64, kPartBytes = 1 << 16;
  const InputFile file(path);
  const uint64_t size = file.size(), parts = size > kSummedWhole ? kParts : 1;
  std::vector<std::byte> bytes(parts > 1 ? kPartBytes : size);
  uint32_t sum = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    file.read((size - bytes.size()) * part / std::max<uint64_t>(1, parts - 1), bytes);
    sum = combine_crc32(sum, crc32(bytes), bytes.size());
  }
  return std::to_string(size) + " bytes, sum " + std::to_string(sum);
}

}  // namespace vggt
