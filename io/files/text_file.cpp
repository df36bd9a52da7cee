#include "io/files/text_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

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

[[noreturn]] void fail_to_read(const std::filesystem::path& path) {
  throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                          path.string() + ": cannot be read");
}

}  // namespace

// A pipe has no size, so the text is read piece by piece until it ends or becomes too long.
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes, const std::string& what) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_to_read(path);
  std::string text;
  std::array<char, 1 << 14> piece;
  do {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > max_bytes)
      throw std::invalid_argument(path.string() + ": larger than " + size_text(max_bytes) + ", not " + what);
  } while (file);
  if (file.bad()) fail_to_read(path);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace vggt
