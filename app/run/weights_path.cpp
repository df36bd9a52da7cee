#include "app/run/weights_path.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace vggt {
namespace fs = std::filesystem;
namespace {

constexpr int kLevelsAboveProgram = 4;

/// The first .ts by name; empty if there is none.
fs::path archive_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> archives;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ts") archives.push_back(entry.path());
  }
  return archives.empty() ? fs::path() : *std::ranges::min_element(archives);
}

}  // namespace

fs::path default_weights() {
  fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<fs::path> places = {folder.parent_path() / "share/vggt_recon/weights"};
  for (int level = 0; level < kLevelsAboveProgram; ++level) {
    places.push_back(folder / "weights");
    folder = folder.parent_path();
  }
  for (const fs::path& place : places) {
    const fs::path archive = archive_in(place);
    if (!archive.empty()) return archive;
  }
  throw std::invalid_argument("weights: no weights came with this program (no " + places.front().string() +
                              "/*.ts): name a file with --weights");
}

}  // namespace vggt
