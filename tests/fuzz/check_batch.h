#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>

#include "app/batch/manifest.h"
#include "app/batch/owner.h"
#include "app/batch/scene_list.h"

namespace vggt {

/// Reads the text as a line of a manifest, as a claim's owner and as a scene's name. Aborts if what is
/// accepted reads differently from its own text, or if the name is not safe for a folder.
inline void check_batch(const std::string& text) {
  if (const auto record = from_line(text)) {
    const std::string line = to_line(*record);
    const auto again = from_line(line);
    if (!again || to_line(*again) != line || line.find('\n') != std::string::npos) std::abort();
  }
  if (const auto owner = owner_of(text)) {
    const auto again = owner_of(to_text(*owner));
    if (!again || to_text(*again) != to_text(*owner)) std::abort();
    is_alive(*owner);
  }
  const std::string name = safe_scene_name(text);
  const bool is_plain = std::ranges::none_of(
      name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f || c == '/' || c == '\\'; });
  if (!is_plain || name.empty() || name[0] == '.' || name.size() > 201 || safe_scene_name(name) != name)
    std::abort();
}

}  // namespace vggt
