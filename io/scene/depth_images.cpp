#include "io/scene/depth_images.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/atomic_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, ".npy and EXR are written little-endian");

uint16_t in_units(float value, double unit) {
  constexpr double kMost = 65535;
  const double units = value / unit;
  if (!(units > 0) || units > kMost + .5) return 0;
  return static_cast<uint16_t>(std::clamp(std::round(units), 1.0, kMost));
}

std::vector<uint8_t> encode_png(const cv::Mat& pixels) try {
  constexpr int kFast = 3;
  std::vector<uint8_t> bytes;
  // Growing would double it; what is not written to costs nothing.
  const std::size_t raw = pixels.total() * pixels.elemSize();
  bytes.reserve(raw + raw / 64 + (1U << 16));
  if (!cv::imencode(".png", pixels, bytes, {cv::IMWRITE_PNG_COMPRESSION, kFast})) bytes.clear();
  return bytes;
} catch (const cv::Exception&) {
  return {};
}

void write_bytes(const fs::path& path, const void* bytes, std::size_t count) {
  write_atomically(path, [&](std::ostream& out) {
    out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  });
}

template <class Value>
void put(std::string& out, Value value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_attribute(std::string& out, std::string_view name, std::string_view type, const std::string& value) {
  out.append(name).push_back('\0');
  out.append(type).push_back('\0');
  put(out, static_cast<int32_t>(value.size()));
  out += value;
}

constexpr int kBlockRows = 16;  // of ZIP compression

/// Everything before the table of offsets (source: "OpenEXR File Layout").
std::string exr_header(int width, int height) {
  constexpr int32_t kMagic = 20000630, kVersion = 2, kFloat = 2;
  constexpr char kZip = 3, kIncreasingY = 0;
  std::string channels = std::string("Y") + '\0', box, center, window_width;
  put(channels, kFloat);
  put(channels, int32_t{0});  // linear, reserved
  put(channels, int32_t{1});  // x and y sampling
  put(channels, int32_t{1});
  channels.push_back('\0');
  for (const int32_t edge : {0, 0, width - 1, height - 1}) put(box, edge);
  put(center, 0.0F);
  put(center, 0.0F);
  put(window_width, 1.0F);
  std::string out;
  put(out, kMagic);
  put(out, kVersion);
  put_attribute(out, "channels", "chlist", channels);
  put_attribute(out, "compression", "compression", std::string(1, kZip));
  put_attribute(out, "dataWindow", "box2i", box);
  put_attribute(out, "displayWindow", "box2i", box);
  put_attribute(out, "lineOrder", "lineOrder", std::string(1, kIncreasingY));
  put_attribute(out, "pixelAspectRatio", "float", window_width);
  put_attribute(out, "screenWindowCenter", "v2f", center);
  put_attribute(out, "screenWindowWidth", "float", window_width);
  out.push_back('\0');
  return out;
}

/// Rows as EXR's ZIP has them: even bytes before odd ones, each as its difference from the one before,
/// deflated; as they are where that is no smaller.
std::vector<uint8_t> exr_block(std::span<const float> rows) {
  const auto* raw = reinterpret_cast<const uint8_t*>(rows.data());
  const std::size_t bytes = rows.size_bytes();
  std::vector<uint8_t> apart(bytes);
  for (std::size_t i = 0; i < bytes; ++i) apart[i / 2 + (i % 2) * ((bytes + 1) / 2)] = raw[i];
  for (std::size_t i = bytes; i-- > 1;) apart[i] = static_cast<uint8_t>(apart[i] - apart[i - 1] + 128);
  uLongf size = compressBound(static_cast<uLong>(bytes));
  std::vector<uint8_t> packed(size);
  constexpr int kFast = 4;
  if (compress2(packed.data(), &size, apart.data(), static_cast<uLong>(bytes), kFast) != Z_OK ||
      size >= bytes)
    return {raw, raw + bytes};
  packed.resize(size);
  return packed;
}

}  // namespace

void write_map_png(const fs::path& path, const ValueMap& map, double unit) {
  cv::Mat pixels(map.height, map.width, CV_16UC1);
  std::vector<float> row(static_cast<std::size_t>(map.width));
  for (int y = 0; y < map.height; ++y) {
    map.read_row(y, row);
    std::ranges::transform(row, pixels.ptr<uint16_t>(y), [&](float value) { return in_units(value, unit); });
  }
  const std::vector<uint8_t> bytes = encode_png(pixels);
  if (bytes.empty()) {
    throw std::invalid_argument(path.string() + ": a map of " + std::to_string(map.width) + "x" +
                                std::to_string(map.height) + " pixels cannot be written as PNG");
  }
  write_bytes(path, bytes.data(), bytes.size());
}

void write_map_npy(const fs::path& path, const ValueMap& map) {
  constexpr std::size_t kAlignment = 64, kPreamble = 10;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(map.height) +
                       ", " + std::to_string(map.width) + "), }";
  header.resize((kPreamble + header.size() + kAlignment) / kAlignment * kAlignment - kPreamble - 1, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\0", 8);
  put(start, static_cast<uint16_t>(header.size()));
  write_atomically(path, [&](std::ostream& out) {
    out << start << header;
    std::vector<float> row(static_cast<std::size_t>(map.width));
    for (int y = 0; y < map.height; ++y) {
      map.read_row(y, row);
      out.write(reinterpret_cast<const char*>(row.data()),
                static_cast<std::streamsize>(row.size() * sizeof(float)));
    }
  });
}

void write_map_exr(const fs::path& path, const ValueMap& map) {
  const auto width = static_cast<std::size_t>(map.width);
  const std::string header = exr_header(map.width, map.height);
  const int blocks = (map.height + kBlockRows - 1) / kBlockRows;
  write_atomically(path, [&](std::ostream& out) {
    std::string offsets(static_cast<std::size_t>(blocks) * sizeof(uint64_t), '\0');
    out << header << offsets;  // which are known when the blocks are written
    offsets.clear();
    std::vector<float> rows;
    for (int first = 0; first < map.height; first += kBlockRows) {
      const int count = std::min(kBlockRows, map.height - first);
      rows.resize(static_cast<std::size_t>(count) * width);
      for (int y = 0; y < count; ++y)
        map.read_row(first + y, std::span(rows).subspan(static_cast<std::size_t>(y) * width, width));
      const std::vector<uint8_t> block = exr_block(rows);
      put(offsets, static_cast<uint64_t>(out.tellp()));
      std::string head;
      put(head, static_cast<int32_t>(first));
      put(head, static_cast<int32_t>(block.size()));
      out << head;
      out.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size()));
    }
    out.seekp(static_cast<std::streamoff>(header.size()));
    out << offsets;
  });
}

}  // namespace vggt
