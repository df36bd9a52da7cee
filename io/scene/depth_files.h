#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace vggt {

/// Depth along the camera's z axis, one value per pixel; 0 where there is none.
struct DepthMap {
  std::string name;  // of its file; empty: it is one of several in a file
  int width = 0, height = 0;
  std::vector<float> values;  // [H,W]
};

/// A 16-bit grey PNG, whose values are multiples of `unit`. Throws std::invalid_argument naming the path for
/// what is no such image, std::system_error if the file cannot be read.
DepthMap read_depth_png(const std::filesystem::path& path, double unit);
/// A Portable Float Map of one channel ("Pf"); what is not finite is 0. Throws as read_depth_png().
DepthMap read_depth_pfm(const std::filesystem::path& path);
/// NumPy's .npy of floats [H,W] or [S,H,W], in C order. Throws as read_depth_png().
std::vector<DepthMap> read_depth_npy(const std::filesystem::path& path);

}  // namespace vggt
