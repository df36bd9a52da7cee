#include "app/cli/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vggt {
namespace {

std::string padded(const BenchColumn& column, const std::string& text) {
  const int width = std::abs(column.width);
  return column.width < 0 ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

/// So many significant digits, of which three at most lie behind the point: 12345, 123, 12.3, 1.23, 0.012.
std::string number_text(double value, int digits) {
  const int before = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
  return fmt::format("{:.{}f}", value, std::clamp(digits - before, 0, 3));
}

std::string cell_text(const BenchColumn& column, const nlohmann::ordered_json& row) {
  const auto found = row.find(column.key);
  if (found == row.end() || found->is_null()) return "-";
  if (found->is_string()) return found->get<std::string>();
  if (column.digits < 0) return found->dump();
  return number_text(column.scale * found->get<double>(), column.digits);
}

template <class Cell>
std::string line_of(const std::vector<BenchColumn>& columns, const Cell& cell) {
  std::string line = "|";
  for (const BenchColumn& column : columns) line += " " + cell(column) + " |";
  return line;
}

}  // namespace

std::vector<std::string> table_head(const std::vector<BenchColumn>& columns) {
  return {line_of(columns, [](const BenchColumn& column) { return padded(column, column.title); }),
          line_of(columns, [](const BenchColumn& column) {
            const auto dashes = static_cast<std::size_t>(std::abs(column.width));
            return column.width < 0 ? std::string(dashes, '-') : std::string(dashes - 1, '-') + ":";
          })};
}

std::string table_row(const std::vector<BenchColumn>& columns, const nlohmann::ordered_json& row) {
  return line_of(columns, [&](const BenchColumn& column) { return padded(column, cell_text(column, row)); });
}

}  // namespace vggt
