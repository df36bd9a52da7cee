#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vggt {

/// A column of a table: which member of a row it shows, and how.
struct BenchColumn {
  const char* key;
  const char* title;
  int width;         // of its cells; below 0: to the left, as texts are
  int digits = -1;   // significant ones of a number; -1: the value as it is
  double scale = 1;  // that numbers are multiplied by
};

/// Head and rule of a Markdown table whose columns also line up as they are.
std::vector<std::string> table_head(const std::vector<BenchColumn>& columns);
/// A row; "-" for what it does not have.
std::string table_row(const std::vector<BenchColumn>& columns, const nlohmann::ordered_json& row);

}  // namespace vggt
