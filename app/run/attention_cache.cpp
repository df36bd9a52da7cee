#include "app/run/attention_cache.h"

#include <cstdlib>
#include <exception>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include "app/run/device.h"
#include "io/files/atomic_file.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// Empty if there is no such file, it cannot be read, or it is larger than any cache of ours.
std::string text_of(const fs::path& path) try {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? read_text_file(path, 1 << 20, "a cache") : std::string();
} catch (const std::exception&) {
  return {};
}

}  // namespace

std::optional<fs::path> attention_cache_path() {
  const auto folder = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  fs::path caches = folder("XDG_CACHE_HOME");
  // The XDG base directory specification has relative paths ignored.
  if (!caches.is_absolute()) caches = folder("HOME") / ".cache";
  if (!caches.is_absolute()) return std::nullopt;
  return caches / "vggt-recon" / "attention.json";
}

TunedPlans load_tuned_plans(const fs::path& path, const TunedGpu& gpu) {
  return plans_in_cache(text_of(path), gpu);
}

void save_tuned_plans(const fs::path& path, const TunedGpu& gpu, const TunedPlans& plans) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  try {
    const std::string text = cache_with_plans(text_of(path), gpu, plans);
    write_atomically(path, [&](std::ostream& out) { out << text; });
  } catch (const std::system_error&) {
    // A cache that cannot be written costs the next run its time for measuring, and nothing else.
  }
}

TunedAttention::TunedAttention(at::Device device, bool wanted) {
  if (!device.is_cuda()) return;
  gpu_ = tuned_gpu(device);
  if (wanted) path_ = attention_cache_path();
  tuner_.emplace(device.index(), path_ ? load_tuned_plans(*path_, gpu_) : TunedPlans(), wanted);
}

std::vector<std::string> TunedAttention::kernels() const {
  if (!tuner_) return {};
  std::vector<std::string> lines = tuner_->runs();
  for (std::string& line : tuner_->missing()) lines.push_back(std::move(line));
  return lines;
}

void TunedAttention::save() const {
  if (tuner_ && path_ && tuner_->changed()) save_tuned_plans(*path_, gpu_, tuner_->plans());
}

}  // namespace vggt
