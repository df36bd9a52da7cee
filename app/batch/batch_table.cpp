#include "app/batch/batch_table.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "app/batch/claims.h"
#include "io/files/text.h"

namespace vggt {
namespace {

constexpr std::size_t kMostRows = 50;
constexpr std::size_t kMostName = 40;

std::string print(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// Columns of a text in UTF-8, as far as each character has one.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The name at its full width; long ones end in dots.
std::string cell(const std::string& name, std::size_t width) {
  std::string text = name;
  if (width_of(text) > width) {
    while (width_of(text) > width - 3) text.pop_back();
    text += "...";
  }
  return text + std::string(width - width_of(text), ' ');
}

std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? print("%.2f", static_cast<double>(bytes) / 1e9) : "-";
}

std::string remark_of(const SceneRow& row) {
  const SceneRecord& record = row.record;
  if (!row.owner.empty()) return row.owner;
  if (!record.error.empty()) return record.error;
  if (record.warnings.empty()) return "";
  return std::to_string(record.warnings.size()) + (record.warnings.size() == 1 ? " warning" : " warnings");
}

std::string row_line(const SceneRow& row, std::size_t width) {
  const SceneRecord& record = row.record;
  const bool done = record.state == SceneState::done && row.state == "done";
  std::string line = cell(one_line(row.scene), width) + print("  %-11s", row.state.c_str());
  line +=
      done ? print("  %6lld  %10lld  %7.1f  %7s  %6s", static_cast<long long>(record.frames),
                   static_cast<long long>(record.points), record.seconds,
                   bytes_text(record.peak_host_bytes).c_str(), bytes_text(record.peak_device_bytes).c_str())
           : std::string(46, ' ');
  line += "  " + one_line(remark_of(row));
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

BatchCounts count_rows(const std::vector<SceneRow>& rows) {
  BatchCounts counts;
  for (const SceneRow& row : rows) {
    int64_t& count = row.state == "done"      ? counts.done
                     : row.state == "failed"  ? counts.failed
                     : row.state == "running" ? counts.running
                                              : counts.left;
    ++count;
  }
  return counts;
}

std::vector<SceneRow> scene_rows(const std::vector<std::string>& scenes, const SceneRecords& records,
                                 const std::filesystem::path& claims) {
  std::vector<SceneRow> rows;
  for (const std::string& scene : scenes) {
    const auto found = records.find(scene);
    if (found == records.end()) {
      rows.push_back({scene, "waiting", {}, {}});
      continue;
    }
    SceneRow row{scene, state_name(found->second.state), found->second, {}};
    if (found->second.state == SceneState::running) {
      const auto owner = claim_holder(claims, scene);
      row.state = owner ? "running" : "interrupted";
      if (owner) row.owner = owner->host + ", process " + std::to_string(owner->pid);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> table_lines(const std::vector<SceneRow>& rows) {
  const bool only_open = rows.size() > kMostRows;
  std::size_t width = 5;
  for (const SceneRow& row : rows) width = std::max(width, std::min(kMostName, width_of(row.scene)));
  std::vector<std::string> lines;
  if (!rows.empty())
    lines.push_back(cell("scene", width) + "  state        frames      points  seconds  host GB  GPU GB");
  double seconds = 0;
  for (const SceneRow& row : rows) {
    seconds += row.record.seconds;
    if (only_open && row.state == "done") continue;
    lines.push_back(row_line(row, width));
  }
  const BatchCounts counts = count_rows(rows);
  std::string sums = std::to_string(rows.size()) + (rows.size() == 1 ? " scene: " : " scenes: ") +
                     std::to_string(counts.done) + " done";
  for (const auto& [count, what] :
       {std::pair(counts.failed, " failed"), {counts.running, " running"}, {counts.left, " to be done"}}) {
    if (count > 0) sums += ", " + std::to_string(count) + what;
  }
  lines.push_back(sums + print("; %.1f s of work", seconds));
  return lines;
}

std::string scene_line(std::size_t number, std::size_t scenes, const std::string& reason,
                       const SceneRecord& record) {
  return print("[%zu/%zu] ", number + 1, scenes) + record.scene +
         print(": %lld %s, %lld points, %.1f s", static_cast<long long>(record.frames),
               record.frames == 1 ? "frame" : "frames", static_cast<long long>(record.points),
               record.seconds) +
         " (" + reason + ")";
}

}  // namespace vggt
