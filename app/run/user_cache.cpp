#include "app/run/user_cache.h"

#include <cstdlib>
#include <exception>
#include <ostream>
#include <system_error>

#include "io/files/atomic_file.h"
#include "io/files/text_file.h"

namespace vggt {

namespace fs = std::filesystem;

std::optional<fs::path> user_cache_path(const std::string& name) {
  const auto folder = [](const char* variable) -> fs::path {
    const char* value = std::getenv(variable);
    return value ? value : "";
  };
  fs::path caches = folder("XDG_CACHE_HOME");
  // The XDG base directory specification has relative paths ignored.
  if (!caches.is_absolute()) caches = folder("HOME") / ".cache";
  if (!caches.is_absolute()) return std::nullopt;
  return caches / "vggt-recon" / name;
}

std::string read_cache(const fs::path& path) try {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? read_text_file(path, 1 << 20, "a cache") : std::string();
} catch (const std::exception&) {
  return {};
}

void write_cache(const fs::path& path, const std::string& text) try {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  write_atomically(path, [&](std::ostream& out) { out << text; });
} catch (const std::system_error&) {
  // The next run learns it again.
}

}  // namespace vggt
