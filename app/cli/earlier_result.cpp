#include "app/cli/earlier_result.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>

#include "io/files/staged_files.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The last name of a path, `walk` of `clips/walk/`; "" where only the folder that it was used in tells it.
std::string source_name(const fs::path& frames) {
  const fs::path name = frames.has_filename() ? frames.filename() : frames.parent_path().filename();
  return name == "." || name == ".." ? "" : name.string();
}

/// What the run that wrote this report had as frames; "" where the file is no report.
std::string frames_of_report(const fs::path& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 28;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  std::string text;
  try {
    text = read_text_file(path, kMostBytes, "a report");
  } catch (const std::exception&) {
    return "";
  }
  if (nests_deeply(text)) return "";
  const Json report = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("options") || !report["options"].is_object()) return "";
  const Json frames = report["options"].value("frames", Json());
  return frames.is_string() ? frames.get<std::string>() : "";
}

}  // namespace

void check_earlier_result(const std::string& frames, const std::string& out) {
  std::error_code ignored;
  try {
    check_writable({fs::path(out) / "scene.ply"});
  } catch (const std::system_error& error) {
    throw std::invalid_argument(std::string(error.what()) + ": name a place for the scene with --out");
  }
  const auto is_visible = [](const fs::directory_entry& entry) {
    return !entry.path().filename().string().starts_with(".");
  };
  const fs::directory_iterator entries(out, ignored);
  if (std::none_of(begin(entries), end(entries), is_visible)) return;
  const std::string earlier = frames_of_report(fs::path(out) / "scene.report.json");
  if (earlier.empty())
    throw std::invalid_argument(out + " holds files that are no result of " + frames +
                                ": name a place for the scene with --out");
  const std::string before = source_name(earlier), now = source_name(frames);
  if (!before.empty() && !now.empty() && before != now)
    throw std::invalid_argument(out + " holds the result of " + before + ": name a place for that of " + now +
                                " with --out");
}

}  // namespace vggt
