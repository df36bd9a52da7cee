#include "io/files/text_file.h"

#include <span>
#include <stdexcept>

#include "io/files/input_file.h"

namespace vggt {
namespace {

/// Such as "64 KiB".
std::string size_text(uint64_t bytes) {
  const char* const units[] = {" bytes", " KiB", " MiB", " GiB"};
  int unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + units[unit];
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes, const std::string& what) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw std::invalid_argument(path.string() + ": larger than " + size_text(max_bytes) + ", not " + what);
  }
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace vggt
