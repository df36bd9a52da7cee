#include "io/frames/image_damage.h"

#include <cstdint>
#include <cstring>

#include "io/files/crc32.h"

namespace vggt {
namespace {

constexpr const char* kTruncated = "is truncated";

uint32_t byte_at(std::span<const std::byte> file, std::size_t at) {
  return static_cast<uint32_t>(file[at]);
}

uint32_t big_u32(std::span<const std::byte> file, std::size_t at) {
  return byte_at(file, at) << 24 | byte_at(file, at + 1) << 16 | byte_at(file, at + 2) << 8 |
         byte_at(file, at + 3);
}

uint32_t little_u32(std::span<const std::byte> file, std::size_t at) {
  return byte_at(file, at) | byte_at(file, at + 1) << 8 | byte_at(file, at + 2) << 16 |
         byte_at(file, at + 3) << 24;
}

// libjpeg fills what is missing with grey and reports it to stderr only, so the end marker is looked for
// here.
std::optional<const char*> find_jpeg_damage(std::span<const std::byte> file) {
  constexpr uint32_t kStartOfScan = 0xDA, kEnd = 0xD9;
  for (std::size_t at = 2; at + 1 < file.size();) {
    const auto* next = static_cast<const std::byte*>(std::memchr(&file[at], 0xFF, file.size() - at - 1));
    if (next == nullptr) break;
    at = static_cast<std::size_t>(next - file.data());
    const uint32_t marker = byte_at(file, at + 1);
    const bool alone = marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8);
    if (marker == kEnd) return std::nullopt;
    if (alone) {
      at += 2;  // a stuffed zero, or a marker without a segment
    } else if (marker == 0xFF) {
      at += 1;
    } else {
      if (at + 3 >= file.size()) break;
      const std::size_t length = byte_at(file, at + 2) << 8 | byte_at(file, at + 3);
      if (length < 2 && marker != kStartOfScan) return "is a damaged JPEG";
      at += 2 + length;
    }
  }
  return kTruncated;
}

// libpng finds the same damage, but reports it to stderr.
std::optional<const char*> find_png_damage(std::span<const std::byte> file) {
  for (std::size_t at = 8; file.size() - at >= 12;) {
    const std::size_t length = big_u32(file, at);
    if (length > file.size() - at - 12) return kTruncated;
    const bool critical = (byte_at(file, at + 4) & 0x20) == 0;
    if (critical && crc32(file.subspan(at + 4, length + 4)) != big_u32(file, at + 8 + length)) {
      return "is a damaged PNG: a checksum is wrong";
    }
    if (std::memcmp(&file[at + 4], "IEND", 4) == 0) return std::nullopt;
    at += 12 + length;
  }
  return kTruncated;
}

// OpenCV reports a short BMP to stderr. The size of a run-length-encoded one does not follow from its header,
// so those are left to OpenCV.
std::optional<const char*> find_bmp_damage(std::span<const std::byte> file, const ImageHeader& header) {
  constexpr std::size_t kInfo = 14, kOldInfoBytes = 12;
  const bool old = little_u32(file, kInfo) == kOldInfoBytes;
  if (file.size() < (old ? std::size_t{26} : std::size_t{34})) return kTruncated;
  const uint64_t bits = little_u32(file, old ? 24 : 28) & 0xFFFF;
  const uint32_t compression = old ? 0 : little_u32(file, 30);
  if (compression == 1 || compression == 2) return std::nullopt;
  const uint64_t row_bits = static_cast<uint64_t>(header.width) * bits;
  const uint64_t before_last = (row_bits + 31) / 32 * 4 * static_cast<uint64_t>(header.height - 1);
  if (file.size() < little_u32(file, 10) + before_last + (row_bits + 7) / 8) return kTruncated;
  return std::nullopt;
}

}  // namespace

std::optional<const char*> find_damage(const ImageHeader& header, std::span<const std::byte> file) {
  if (header.format == ImageFormat::jpeg) return find_jpeg_damage(file);
  if (header.format == ImageFormat::png) return find_png_damage(file);
  if (header.format == ImageFormat::bmp) return find_bmp_damage(file, header);
  const bool short_webp =
      header.format == ImageFormat::webp && file.size() < std::size_t{8} + little_u32(file, 4);
  return short_webp ? std::optional(kTruncated) : std::nullopt;
}

}  // namespace vggt
