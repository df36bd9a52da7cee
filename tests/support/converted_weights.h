// Weights in a format that no fixture has: made from one that PyTorch wrote.
#pragma once
#include <filesystem>

#include "io/weights/weight_tools.h"
#include "tests/support/torch_bytes.h"

namespace vggt::testing {

/// golden/nano's weights.pt and its config as fp32 in a .safetensors file that lies as long as the process
/// does.
inline const std::filesystem::path& nano_safetensors() {
  struct File {
    std::filesystem::path path = torch_bytes::scratch("nano", ".safetensors");
    File() {
      const std::filesystem::path source = std::filesystem::path(VGGT_FIXTURES) / "golden/nano/weights.pt";
      convert(WeightFile::open(source), path, at::kFloat, std::nullopt);
    }
    ~File() { std::filesystem::remove(path); }
  };
  static const File file;
  return file.path;
}

}  // namespace vggt::testing
