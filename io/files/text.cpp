#include "io/files/text.h"

#include <algorithm>

namespace vggt {
namespace {

constexpr std::string_view kBlanks = " \t\r";

}  // namespace

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  return one_line(std::string(text.substr(0, kLongest))) + (text.size() > kLongest ? "..." : "");
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(kBlanks) + 1));
  return text;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

}  // namespace vggt
