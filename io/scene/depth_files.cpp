#include "io/scene/depth_files.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <opencv2/core.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "io/files/byte_reader.h"
#include "io/files/input_file.h"
#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/frames/image_files.h"
#include "io/tensors/tensor_values.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSide = 1 << 16;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

/// Calls read(bytes) with the whole file; errors get its path.
template <class Read>
auto with_file(const fs::path& path, Read&& read) {
  const InputFile file(path);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  try {
    return read(std::span<const std::byte>(bytes));
  } catch (const std::invalid_argument& error) {
    fail(path.string() + ": " + error.what());
  }
}

int64_t whole_number(std::string_view word) {
  const std::optional<int64_t> value = parse_number<int64_t>(word);
  if (!value) fail("'" + printable(word) + "' is not a whole number");
  return *value;
}

void check_sides(int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    fail("its size is " + std::to_string(width) + "×" + std::to_string(height) + "; sides must be 1 to " +
         std::to_string(kMaxSide));
  }
}

/// The value of `key` in the header of a .npy, up to one of `ends`.
std::string_view npy_field(std::string_view header, std::string_view key, std::string_view ends) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) fail("its header has no " + std::string(key));
  const std::size_t colon = header.find(':', at);
  const std::size_t begin = std::min(header.find_first_not_of(" :", colon), header.size());
  return header.substr(begin, std::min(header.find_first_of(ends, begin + 1), header.size()) - begin);
}

ElementType npy_type(std::string_view descr) {
  if (descr == "'<f4") return ElementType::f32;
  if (descr == "'<f8") return ElementType::f64;
  if (descr == "'<f2") return ElementType::f16;
  fail("its type is " + printable(descr) + "', not little-endian '<f4', '<f8' or '<f2'");
}

std::vector<int64_t> npy_shape(std::string_view text) {
  std::vector<int64_t> shape;
  std::string digits;
  for (const char c : text) {
    if (c == ' ' || c == '(') continue;
    if (c != ',') digits += c;
    if (c != ',' || digits.empty()) continue;
    shape.push_back(whole_number(digits));
    digits.clear();
  }
  if (!digits.empty()) shape.push_back(whole_number(digits));
  return shape;
}

std::vector<DepthMap> parse_npy(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.text(6) != "\x93NUMPY") fail("not a .npy file");
  const auto version = reader.number<uint16_t>() & 0xFF;
  const std::size_t header_bytes = version == 1 ? reader.number<uint16_t>() : reader.number<uint32_t>();
  const std::string_view header = reader.text(header_bytes);
  const ElementType type = npy_type(npy_field(header, "'descr'", "'"));
  if (npy_field(header, "'fortran_order'", ",}") != "False") fail("it is in Fortran order");
  std::vector<int64_t> shape = npy_shape(npy_field(header, "'shape'", ")"));
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  if (shape.size() != 3) fail("it has " + std::to_string(shape.size()) + " dimensions, not [H,W] or [S,H,W]");
  check_sides(shape[1], shape[2]);
  const auto pixels = static_cast<std::size_t>(shape[1] * shape[2]);
  const std::size_t map_bytes = pixels * element_bytes(type);
  if (shape[0] < 1 || static_cast<std::size_t>(shape[0]) > reader.left() / map_bytes)
    fail("it ends too early");
  std::vector<DepthMap> maps(static_cast<std::size_t>(shape[0]));
  for (DepthMap& map : maps) {
    map.height = static_cast<int>(shape[1]);
    map.width = static_cast<int>(shape[2]);
    map.values.resize(pixels);
    const std::byte* data = reader.take(map_bytes).data();
    for (std::size_t i = 0; i < pixels; ++i) map.values[i] = tensor_value(type, data, i);
  }
  return maps;
}

DepthMap parse_pfm(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<std::string> words;
  while (words.size() < 4) {
    std::string_view line = reader.line();
    for (std::string_view word; !(word = next_word(line)).empty();) words.emplace_back(word);
  }
  if (words[0] != "Pf") fail("not a .pfm of one channel");
  DepthMap map;
  const int64_t width = whole_number(words[1]), height = whole_number(words[2]);
  check_sides(height, width);
  map.width = static_cast<int>(width);
  map.height = static_cast<int>(height);
  const std::string_view number = words[3];
  const auto scale = parse_finite<double>(number.starts_with('+') ? number.substr(1) : number);
  if (!scale || *scale == 0) fail("its scale is neither above nor below 0");
  const bool big_endian = *scale > 0;
  const auto row = static_cast<std::size_t>(width);
  const auto data = reader.take(row * static_cast<std::size_t>(height) * sizeof(float));
  map.values.resize(row * static_cast<std::size_t>(height));
  ByteReader values(data);
  for (std::size_t y = static_cast<std::size_t>(height); y-- > 0;) {  // the lowest row comes first
    for (std::size_t x = 0; x < row; ++x) {
      const auto raw = values.number<uint32_t>();
      const auto value = std::bit_cast<float>(big_endian ? __builtin_bswap32(raw) : raw);
      map.values[y * row + x] = std::isfinite(value) ? value : 0;
    }
  }
  return map;
}

}  // namespace

DepthMap read_depth_png(const fs::path& path, double unit) {
  cv::Mat pixels;
  try {
    pixels = ImageFile(path).decode().pixels;
  } catch (const std::invalid_argument& error) {
    fail(path.string() + ": " + error.what());
  }
  if (pixels.type() != CV_16UC1) fail(path.string() + ": not a 16-bit grey image, so no depth");
  DepthMap map{path.filename().string(), pixels.cols, pixels.rows, {}};
  map.values.reserve(pixels.total());
  for (int y = 0; y < pixels.rows; ++y) {
    for (int x = 0; x < pixels.cols; ++x) {
      map.values.push_back(static_cast<float>(pixels.at<uint16_t>(y, x) * unit));
    }
  }
  return map;
}

DepthMap read_depth_pfm(const fs::path& path) {
  DepthMap map = with_file(path, parse_pfm);
  map.name = path.filename().string();
  return map;
}

std::vector<DepthMap> read_depth_npy(const fs::path& path) {
  std::vector<DepthMap> maps = with_file(path, parse_npy);
  if (maps.size() == 1) maps.front().name = path.filename().string();
  return maps;
}

}  // namespace vggt
