#pragma once
#include <cstdint>
#include <string>

#include "app/scene/scene_builder.h"

namespace vggt {

/// Lines of --dry-run and of the end, such as "12 frames of 518x392 pixels".
std::string frames_text(std::size_t frames, int width, int height);
std::string memory_text(int64_t weight_bytes, int64_t work_bytes, int64_t pinned_bytes);
std::string filter_text(const FilterCount& filter);
std::string scene_text(const std::string& path, std::size_t points, double seconds);

}  // namespace vggt
