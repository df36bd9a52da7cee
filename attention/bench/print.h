#pragma once
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <string>

namespace vggt {

/// Takes the text of a benchmark as it comes, in whole lines.
using Print = std::function<void(const std::string&)>;

/// As printf, to a string of at most 500 characters.
[[gnu::format(printf, 1, 2)]] inline std::string formatted(const char* format, ...) {
  char text[501];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace vggt
