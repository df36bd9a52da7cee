#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/cli/bench_table.h"
#include "app/cli/console.h"
#include "attention/bench/rows.h"

namespace vggt {

/// The page of `bench`: sections with a table each, printed as their rows come and kept as JSON. What was
/// left out, and what failed, stands in lines behind its table; what was left out is "skipped" in the JSON.
class BenchSheet {
 public:
  /// json: what stands before the sections.
  BenchSheet(nlohmann::ordered_json json, Console& console, Events events);

  /// Throws std::system_error where nobody takes what is printed.
  void line(const std::string& text);
  /// note: lines between the title and the table.
  void begin(const char* name, const std::string& title, const std::vector<std::string>& note,
             std::vector<BenchColumn> columns);
  /// Takes the rows of what has begun.
  ShowRow rows();
  /// Ends the section.
  void end();

  nlohmann::ordered_json json;

 private:
  void skip(const nlohmann::ordered_json& row);
  void remark(const std::string& text);

  Console& console_;
  Events events_;
  std::string name_;
  std::vector<BenchColumn> columns_;
  std::vector<std::string> remarks_;  // lines
};

}  // namespace vggt
