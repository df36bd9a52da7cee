#include "app/report/summary.h"

#include <fmt/format.h>

namespace vggt {

std::string frames_text(std::size_t frames, int width, int height) {
  return fmt::format("{} frame{} of {}x{} pixels", frames, frames == 1 ? "" : "s", width, height);
}

std::string memory_text(int64_t weight_bytes, int64_t work_bytes, int64_t pinned_bytes) {
  constexpr double kGiB = 1 << 30;
  const double weights = static_cast<double>(weight_bytes) / kGiB,
               work = static_cast<double>(work_bytes) / kGiB;
  std::string text =
      fmt::format("about {:.2f} GiB ({:.2f} weights, {:.2f} work)", weights + work, weights, work);
  if (pinned_bytes > 0)
    text += fmt::format(", and {:.2f} GiB of the host", static_cast<double>(pinned_bytes) / kGiB);
  return text;
}

std::string filter_text(const FilterCount& filter) {
  return fmt::format("{}: {} -> {} points", filter.name, filter.before, filter.after);
}

std::string scene_text(const std::string& path, std::size_t points, double seconds) {
  return fmt::format("{}: {} points, {:.1f} s", path, points, seconds);
}

}  // namespace vggt
