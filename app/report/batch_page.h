#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vggt {

/// A scene of a batch as its page lists it.
struct BatchRow {
  std::string name;
  std::string state;  // "done", "failed", "running" or "waiting"
  int64_t points = 0, frames = 0;
  double seconds = 0;
  std::vector<std::string> warnings;
  std::string error;  // of a failed scene
  std::string link;   // the path of the scene's page from this one's folder, as it is; empty: none
  /// Where the scene's page lies, for its picture; empty, or not there: no picture.
  std::filesystem::path page;
};

/// Writes one HTML file, in itself complete but for the links, that lists scenes in the order given. Names,
/// warnings, errors and links may hold any bytes. Throws std::system_error if the file cannot be written.
void write_batch_page(const std::filesystem::path& path, const std::string& title,
                      const std::vector<BatchRow>& rows);

}  // namespace vggt
