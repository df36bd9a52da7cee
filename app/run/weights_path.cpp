#include "app/run/weights_path.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace vggt {
namespace fs = std::filesystem;
namespace {

constexpr int kLevelsAboveProgram = 5;

/// The first .ts by name; empty if there is none.
fs::path archive_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> archives;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ts") archives.push_back(entry.path());
  }
  return archives.empty() ? fs::path() : *std::ranges::min_element(archives);
}

/// The folder of the program or the shared library that holds this code.
fs::path own_folder() {
  Dl_info info = {};
  link_map* map = nullptr;
  const bool found = ::dladdr1(reinterpret_cast<const void*>(&own_folder), &info,
                               reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The linker has no name for the program itself.
  const bool is_library = found && map && map->l_name[0] != '\0';
  return fs::canonical(is_library ? map->l_name : "/proc/self/exe").parent_path();
}

}  // namespace

fs::path default_weights() {
  fs::path folder = own_folder();
  constexpr const char* kInstalled = "share/vggt_recon/weights";
  // Debian's folder of libraries is lib/x86_64-linux-gnu.
  std::vector<fs::path> places = {folder.parent_path() / kInstalled,
                                  folder.parent_path().parent_path() / kInstalled};
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
