#include "app/run/query_points.h"

#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;  // the tracker could not follow as many points as fit in more

bool has_digit(std::string_view text) {
  return text.find_first_of("0123456789") != text.npos;
}

}  // namespace

QueryPoints read_query_points(const std::string& path) {
  const std::string text = read_text_file(path, kMostBytes, "a list of points");
  QueryPoints points;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view words = trimmed(line);
    if (words.empty() || (number == 1 && !has_digit(words))) continue;
    const std::size_t comma = words.find(',');
    const auto x = parse_finite<float>(trimmed(words.substr(0, comma)));
    const auto y = comma == words.npos ? std::nullopt : parse_finite<float>(trimmed(words.substr(comma + 1)));
    if (!x || !y) {
      throw std::invalid_argument(path + ":" + std::to_string(number) + ": '" +
                                  printable(words.substr(0, 80)) + "' is not x,y");
    }
    points.push_back({*x, *y});
  }
  if (points.empty()) throw std::invalid_argument(path + ": holds no points");
  return points;
}

void check_inside(const QueryPoints& points, int width, int height, const std::string& path) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [x, y] = points[i];
    const bool inside =
        x >= 0 && y >= 0 && x <= static_cast<float>(width - 1) && y <= static_cast<float>(height - 1);
    if (inside) continue;
    throw std::invalid_argument(path + ": point " + std::to_string(i + 1) + " (" + std::to_string(x) + ", " +
                                std::to_string(y) + ") lies outside the frame of " + std::to_string(width) +
                                "x" + std::to_string(height) + " network pixels");
  }
}

void check_unmasked(const QueryPoints& points, std::span<const uint8_t> used, int width,
                    const std::string& path) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [x, y] = points[i];
    const auto row = static_cast<std::size_t>(std::lround(y)),
               column = static_cast<std::size_t>(std::lround(x));
    if (used[row * static_cast<std::size_t>(width) + column] != 0) continue;
    throw std::invalid_argument(path + ": point " + std::to_string(i + 1) + " (" + std::to_string(x) + ", " +
                                std::to_string(y) + ") lies where the first frame's mask is black");
  }
}

}  // namespace vggt
