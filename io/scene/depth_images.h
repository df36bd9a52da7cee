#pragma once
#include <filesystem>
#include <functional>
#include <span>

namespace vggt {

/// A map of one value a pixel, such as depth: rows [width], asked for once each and in their order; 0 or not
/// finite where there is none.
struct ValueMap {
  int width = 0, height = 0;
  std::function<void(int y, std::span<float> row)> read_row;
};

/// A 16-bit grey PNG whose values are multiples of `unit`, rounded. 0: none; also what lies beyond 65535
/// units. What is above 0 and rounds to it becomes 1. Takes two bytes of memory a pixel and the file's bytes,
/// the others some rows. Throws std::invalid_argument naming the path if PNG cannot hold the image,
/// std::system_error if the file cannot be written, as the others do.
void write_map_png(const std::filesystem::path& path, const ValueMap& map, double unit);
/// NumPy's .npy, '<f4' [H,W].
void write_map_npy(const std::filesystem::path& path, const ValueMap& map);
/// OpenEXR: one channel "Y" of floats, ZIP compression.
void write_map_exr(const std::filesystem::path& path, const ValueMap& map);

}  // namespace vggt
