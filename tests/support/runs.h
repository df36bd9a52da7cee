#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "app/options/options.h"

// Runs as a library: what they are given and what they write.
namespace vggt::testing {

using Files = std::map<std::string, std::string>;  // by name

/// Three small frames and the model that ships.
inline Options small_model() {
  Options options;
  options.frames = VGGT_SOURCE_DIR "/examples/room";
  options.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
  options.max_frames = 3;
  options.width = 112;
  return options;
}

/// Frames and model of the golden tensors, the cloud from the point head.
inline Options golden_model() {
  Options options;
  options.frames = VGGT_FIXTURES "/golden/nano/frames2_42x56.safetensors";
  options.weights = VGGT_FIXTURES "/golden/nano/weights.pt";
  options.points = "head";
  return options;
}

/// The files of a run, but its report: that holds seconds.
inline Files files_in(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".report.json")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[name] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

}  // namespace vggt::testing
