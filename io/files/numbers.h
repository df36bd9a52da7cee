#pragma once
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace vggt {

/// The number that the whole text spells, in the C locale; nothing for anything else (blanks, a sign '+',
/// more text behind it, a value out of range). "inf" and "nan" are floating-point numbers.
template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::optional<Number> parse_number(
    std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// parse_number(), and nothing for what is not finite.
template <std::floating_point Number>
std::optional<Number> parse_finite(std::string_view text) {
  const std::optional<Number> number = parse_number<Number>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// The shortest text that parse_number() reads back as the same number.
inline std::string number_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace vggt
