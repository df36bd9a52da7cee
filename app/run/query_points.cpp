#include "app/run/query_points.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "io/files/numbers.h"
#include "io/files/text.h"

namespace vggt {
namespace {

bool has_digit(std::string_view text) {
  return text.find_first_of("0123456789") != text.npos;
}

}  // namespace

QueryPoints read_query_points(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot read " + path);
  QueryPoints points;
  int number = 0;
  std::array<char, 256> line;  // more is no point: a file of another kind, perhaps without an end
  while (file.getline(line.data(), line.size())) {
    ++number;
    const std::string_view text = trimmed(line.data());
    if (text.empty() || (number == 1 && !has_digit(text))) continue;
    const std::size_t comma = text.find(',');
    const auto x = parse_finite<float>(trimmed(text.substr(0, comma)));
    const auto y = comma == text.npos ? std::nullopt : parse_finite<float>(trimmed(text.substr(comma + 1)));
    if (!x || !y) {
      throw std::invalid_argument(path + ":" + std::to_string(number) + ": '" +
                                  std::string(text.substr(0, 80)) + "' is not x,y");
    }
    points.push_back({*x, *y});
  }
  if (file.bad()) throw std::system_error(errno, std::generic_category(), "cannot read " + path);
  if (!file.eof()) throw std::invalid_argument(path + ":" + std::to_string(number + 1) + ": is not x,y");
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

}  // namespace vggt
