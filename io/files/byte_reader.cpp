#include "io/files/byte_reader.h"

#include <algorithm>

namespace vggt {

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  std::string result;
  for (const char c : text.substr(0, kLongest))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > kLongest) result += "...";
  return result;
}

std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = std::min(line.find_first_not_of(kBlank), line.size());
  const std::size_t end = std::min(line.find_first_of(kBlank, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::string_view ByteReader::line() {
  const auto rest = bytes_.subspan(position_);
  const void* end = rest.empty() ? nullptr : std::memchr(rest.data(), '\n', rest.size());
  if (end == nullptr) throw std::invalid_argument("it ends too early");
  const std::string_view result =
      text(static_cast<std::size_t>(static_cast<const std::byte*>(end) - rest.data()));
  take(1);
  return result;
}

}  // namespace vggt
