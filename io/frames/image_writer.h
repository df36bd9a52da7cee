#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace vggt {

/// Writes rgb bytes [H,W,3] as the path's extension says, .png or .jpg. Takes no memory beside them and the
/// file's bytes. Throws std::invalid_argument naming the path if the format cannot hold the image,
/// std::system_error if the file cannot be written.
void write_image(const std::filesystem::path& path, int width, int height, std::vector<uint8_t> rgb,
                 int jpeg_quality = 92);

/// The same as the bytes of a JPEG file.
std::vector<uint8_t> encode_jpeg(int width, int height, std::span<const uint8_t> rgb, int jpeg_quality = 92);

}  // namespace vggt
