#include "app/cli/bench_sheet.h"

#include <iterator>
#include <utility>

#include "attention/bench/pace.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

/// The members of a row in words, such as "tokens 4164, type fp32".
std::string row_text(const ordered_json& row) {
  std::string text;
  for (const auto& [name, value] : row.items())
    text += (text.empty() ? "" : ", ") + name + " " +
            (value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

std::string text_in(const ordered_json& row, const char* name) {
  return row[name].get<std::string>();
}

ordered_json without(ordered_json row, const char* name) {
  row.erase(name);
  return row;
}

/// The row with a word where LibTorch's number would be.
ordered_json with_words(ordered_json row) {
  if (row.contains("libtorch_left_out"))
    row["libtorch_seconds"] = text_in(row, "libtorch_left_out") == kBeyondTime ? "no time" : "no room";
  if (row.contains("libtorch_failure")) row["libtorch_seconds"] = "failed";
  return row;
}

}  // namespace

BenchSheet::BenchSheet(ordered_json json, Console& console, Events events)
    : json(std::move(json)), console_(console), events_(std::move(events)) {
  this->json["skipped"] = ordered_json::array();
}

void BenchSheet::line(const std::string& text) {
  console_.result(text);
  console_.check_output();
}

void BenchSheet::begin(const char* name, const std::string& title, const std::vector<std::string>& note,
                       std::vector<BenchColumn> columns) {
  name_ = name;
  columns_ = std::move(columns);
  json[name_] = ordered_json::array();
  line("");
  line("## " + title);
  line("");
  for (const std::string& part : note) line(part);
  if (!note.empty()) line("");
  for (const std::string& part : table_head(columns_)) line(part);
  events_.progress(name_, "rows", 0, 0);
}

ShowRow BenchSheet::rows() {
  return [this](const ordered_json& row) {
    if (row.contains("left_out")) return skip(row);
    json[name_].push_back(row);
    line(table_row(columns_, with_words(row)));
    if (row.contains("failure")) remark(row_text(without(row, "failure")) + ": " + text_in(row, "failure"));
    if (row.contains("libtorch_failure"))
      remark("LibTorch, " + row.begin().key() + " " + row.begin()->dump() + ": " +
             text_in(row, "libtorch_failure"));
    events_.check_stop();
    events_.progress(name_, "rows", std::ssize(json[name_]), 0);
  };
}

void BenchSheet::skip(const ordered_json& row) {
  const ordered_json what = without(row, "left_out");
  const std::string why = text_in(row, "left_out");
  json["skipped"].push_back({{"section", name_}, {"row", what}, {"why", why}});
  remark("left out: " + row_text(what) + ": " + why);
}

void BenchSheet::remark(const std::string& text) {
  constexpr std::size_t kMost = 78;
  remarks_.push_back(text.substr(0, kMost));
}

void BenchSheet::end() {
  if (!remarks_.empty()) line("");
  for (const std::string& text : remarks_) line("- " + text);
  remarks_.clear();
}

}  // namespace vggt
