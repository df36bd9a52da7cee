#include "io/frames/image_header.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "io/frames/heif_image.h"

namespace vggt {
namespace {

constexpr const char* kTruncated = "is truncated";
constexpr double kMostDecoderBytes = 64;  // whatever a file says

using Bytes = std::span<const std::byte>;

// Integers of a file at an offset; reading past the end throws.
class Fields {
 public:
  Fields(Bytes file, uint64_t base, bool big_endian)
      : bytes_(file.subspan(std::min<uint64_t>(base, file.size()))), big_(big_endian) {}

  uint64_t number(uint64_t offset, int bytes) const {
    if (!has(offset, static_cast<std::size_t>(bytes))) throw std::invalid_argument(kTruncated);
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value = value << 8 |
              static_cast<uint64_t>(bytes_[offset + static_cast<uint64_t>(big_ ? i : bytes - 1 - i)]);
    }
    return value;
  }
  uint64_t u8(uint64_t offset) const { return number(offset, 1); }
  uint64_t u16(uint64_t offset) const { return number(offset, 2); }
  uint64_t u32(uint64_t offset) const { return number(offset, 4); }
  bool holds(uint64_t offset, std::string_view text) const {
    return has(offset, text.size()) && std::memcmp(&bytes_[offset], text.data(), text.size()) == 0;
  }

 private:
  bool has(uint64_t offset, std::size_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }

  Bytes bytes_;
  bool big_;
};

// The first directory of a TIFF file, or of the EXIF block of another format.
class TiffDirectory {
 public:
  TiffDirectory(Bytes file, uint64_t base)
      : fields_(file, base, Fields(file, base, true).holds(0, "MM")), big_tiff_(fields_.u16(2) == 43) {
    open(big_tiff_ ? fields_.number(8, 8) : fields_.u32(4));
  }

  // The directory that a tag of this one points to, such as EXIF's own.
  std::optional<TiffDirectory> inside(unsigned tag) const {
    const std::optional<uint64_t> start = find(tag);
    if (!start) return std::nullopt;
    TiffDirectory result = *this;
    result.open(*start);
    return result;
  }

  // The values of a tag as they are stored, such as a text, a fraction or, outside EXIF's standard, a float;
  // empty if there is none, or much.
  std::string raw(unsigned tag, uint64_t most) const {
    for (uint64_t at = first(); at < first() + count_ * stride(); at += stride()) {
      if (fields_.u16(at) != tag) continue;
      constexpr std::array<uint8_t, 13> kSizes{0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8};  // by TIFF's types
      const uint64_t type = fields_.u16(at + 2), size = type < kSizes.size() ? kSizes[type] : 0;
      const uint64_t bytes = size * fields_.number(at + 4, inline_bytes());
      if (bytes > most) return {};
      const uint64_t value = at + 4 + static_cast<uint64_t>(inline_bytes());
      const uint64_t from =
          bytes > static_cast<uint64_t>(inline_bytes()) ? fields_.number(value, inline_bytes()) : value;
      std::string text;
      for (uint64_t i = 0; i < bytes; ++i) text += static_cast<char>(fields_.u8(from + i));
      return text;
    }
    return {};
  }

  // The first value of a tag of whole numbers.
  std::optional<uint64_t> find(unsigned tag) const {
    const auto inside = static_cast<uint64_t>(inline_bytes());
    for (uint64_t at = first(); at < first() + count_ * stride(); at += stride()) {
      if (fields_.u16(at) != tag) continue;
      const uint64_t type = fields_.u16(at + 2);
      const int bytes = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : type == 16 ? 8 : 0;
      if (bytes == 0) return std::nullopt;
      const uint64_t count = fields_.number(at + 4, static_cast<int>(inside));
      const uint64_t value = at + 4 + inside;
      const bool elsewhere = count > inside / bytes;
      return fields_.number(elsewhere ? fields_.number(value, static_cast<int>(inside)) : value, bytes);
    }
    return std::nullopt;
  }

 private:
  void open(uint64_t start) {
    start_ = start;
    const uint64_t count = big_tiff_ ? fields_.number(start_, 8) : fields_.u16(start_);
    count_ = std::min<uint64_t>(count, 4096);
  }
  uint64_t first() const { return start_ + (big_tiff_ ? 8 : 2); }
  uint64_t stride() const { return big_tiff_ ? 20 : 12; }
  int inline_bytes() const { return big_tiff_ ? 8 : 4; }  // of values that stand in the entry itself

  Fields fields_;
  bool big_tiff_;
  uint64_t start_ = 0, count_ = 0;
};

// A damaged EXIF block says nothing about the pixels.
int orientation_at(Bytes file, uint64_t tiff) {
  constexpr unsigned kOrientation = 0x0112;
  try {
    const uint64_t value = TiffDirectory(file, tiff).find(kOrientation).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  } catch (const std::invalid_argument&) {
    return 1;
  }
}

// What tells two cameras or two zooms of one apart: the tags' bytes, compared and never shown.
std::string camera_at(Bytes file, uint64_t tiff) {
  constexpr unsigned kMaker = 0x010F, kModel = 0x0110, kExif = 0x8769, kFocalLength = 0x920A,
                     kDigitalZoom = 0xA404, kFocalLengthIn35mm = 0xA405;
  constexpr uint64_t kName = 64, kNumber = 8;
  try {
    const TiffDirectory directory(file, tiff);
    std::string camera = directory.raw(kMaker, kName) + directory.raw(kModel, kName);
    // A phone that crops its sensor to zoom keeps the lens' own focal length.
    if (const auto exif = directory.inside(kExif))
      camera += exif->raw(kFocalLength, kNumber) + exif->raw(kDigitalZoom, kNumber) +
                exif->raw(kFocalLengthIn35mm, kNumber);
    return camera;
  } catch (const std::invalid_argument&) {
    return {};
  }
}

// Bytes a pixel of a JPEG's coefficients, which a decoder holds all where a scan has not all of them.
int jpeg_coefficients(const Fields& fields, uint64_t frame) {
  const uint64_t components = std::min<uint64_t>(4, fields.u8(frame + 9));  // decoders know no more
  uint64_t samples = 0, most_across = 1, most_down = 1;
  for (uint64_t i = 0; i < components; ++i) {
    const uint64_t sampling = fields.u8(frame + 11 + 3 * i), across = sampling >> 4, down = sampling & 0xF;
    samples += across * down;
    most_across = std::max(most_across, across);
    most_down = std::max(most_down, down);
  }
  const uint64_t area = most_across * most_down;
  return static_cast<int>((2 * samples + area - 1) / area);
}

ImageHeader read_jpeg(Bytes file) {
  const Fields fields(file, 0, true);
  ImageHeader header;
  bool exif_seen = false, progressive = false;
  uint64_t components = 0;
  int coefficients = 0;
  for (uint64_t at = 2;;) {
    if (fields.u8(at) != 0xFF) throw std::invalid_argument("is a damaged JPEG");
    const uint64_t marker = fields.u8(at + 1);
    if (marker == 0xFF) {
      ++at;  // fill byte
      continue;
    }
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) {
      header.height = static_cast<int64_t>(fields.u16(at + 5));
      header.width = static_cast<int64_t>(fields.u16(at + 7));
      components = fields.u8(at + 9);
      header.bytes_per_pixel = components == 1 ? 1 : 3;
      progressive = marker % 4 == 2;
      coefficients = jpeg_coefficients(fields, at);
    }
    if (marker == 0xE1 && !exif_seen && fields.holds(at + 4, std::string_view("Exif\0", 5))) {
      exif_seen = true;
      header.orientation = orientation_at(file, at + 10);
      header.camera = camera_at(file, at + 10);
    }
    if (marker == 0xDA) {
      if (progressive || fields.u8(at + 4) < components) header.decoder_bytes = coefficients;
      return header;
    }
    if (marker == 0xD9) throw std::invalid_argument("is a JPEG without an image");
    at += 2 + fields.u16(at + 2);
  }
}

ImageHeader read_png(Bytes file) {
  const Fields fields(file, 0, true);
  ImageHeader header{ImageFormat::png};
  header.width = static_cast<int64_t>(fields.u32(16));
  header.height = static_cast<int64_t>(fields.u32(20));
  constexpr uint64_t kPalette = 3;
  const uint64_t depth = fields.u8(24), color = fields.u8(25);
  int channels = color == 0 ? 1 : color == 4 || color == 6 ? 4 : 3;
  const bool composited =
      color == 6 || (color == 4 && depth == 16);  // grey with alpha at 8 bits is Pillow's LA
  if (composited) header.alpha = Alpha::on_white;
  for (uint64_t at = 8; at + 12 <= file.size(); at += 12 + fields.u32(at)) {
    if (fields.holds(at + 4, "eXIf")) {
      header.orientation = orientation_at(file, at + 8);
      header.camera = camera_at(file, at + 8);
    }
    if (color == kPalette && fields.holds(at + 4, "tRNS")) channels = 4;
  }
  header.bytes_per_pixel = channels * (depth == 16 ? 2 : 1);
  return header;
}

ImageHeader read_webp(Bytes file) {
  const Fields fields(file, 0, false);
  ImageHeader header{ImageFormat::webp};
  header.bytes_per_pixel = 4;
  header.alpha = Alpha::on_white;
  for (uint64_t at = 12; at + 8 <= file.size(); at += 8 + (fields.u32(at + 4) + 1) / 2 * 2) {
    const bool known = header.width != 0;
    if (fields.holds(at, "VP8X")) {
      if (fields.u8(at + 8) & 2) throw std::invalid_argument("is an animated WebP, which is not supported");
      if (fields.u8(at + 8) & 0x10) header.decoder_bytes = 2;  // its alpha, in a plane of its own
      header.width = static_cast<int64_t>(fields.number(at + 12, 3)) + 1;
      header.height = static_cast<int64_t>(fields.number(at + 15, 3)) + 1;
    } else if (fields.holds(at, "VP8 ") && !known) {
      header.width = static_cast<int64_t>(fields.u16(at + 14) & 0x3FFF);
      header.height = static_cast<int64_t>(fields.u16(at + 16) & 0x3FFF);
    } else if (fields.holds(at, "VP8L")) {
      header.decoder_bytes = 4;
      const uint64_t bits = fields.u32(at + 9);
      if (known) continue;
      header.width = static_cast<int64_t>(bits & 0x3FFF) + 1;
      header.height = static_cast<int64_t>(bits >> 14 & 0x3FFF) + 1;
    } else if (fields.holds(at, "EXIF")) {
      const bool prefixed = fields.holds(at + 8, std::string_view("Exif\0\0", 6));
      header.orientation = orientation_at(file, at + (prefixed ? 14 : 8));
      header.camera = camera_at(file, at + (prefixed ? 14 : 8));
    }
  }
  return header;
}

struct TiffPixels {
  int bits, samples;
  bool is_palette;
};

/// Bytes of a pixel that libtiff holds: of a strip or a tile what it is in the file and its colours, of more
/// than 8 bits only what they are read into. One strip that is not compressed it takes in pieces.
double tiff_decoder_bytes(const TiffDirectory& directory, const ImageHeader& header, const TiffPixels& pixels,
                          std::size_t file_bytes) {
  constexpr unsigned kCompression = 259, kRowsPerStrip = 278, kPlanes = 284, kTileColumns = 322,
                     kTileRows = 323;
  constexpr uint64_t kApart = 2;
  constexpr double kLargest = 1.5;  // times its raw bytes a compressed strip is hardly
  const bool is_compressed = directory.find(kCompression).value_or(1) != 1,
             is_apart = directory.find(kPlanes).value_or(1) == kApart;
  const std::optional<uint64_t> tile_rows = directory.find(kTileRows);
  const auto width = static_cast<double>(header.width), height = static_cast<double>(header.height);
  const double rows = static_cast<double>(tile_rows.value_or(
                   directory.find(kRowsPerStrip).value_or(std::numeric_limits<uint32_t>::max()))),
               columns = tile_rows ? static_cast<double>(directory.find(kTileColumns).value_or(0)) : width;
  if (!is_compressed && !is_apart && !tile_rows && rows >= height) return 0;
  const double planes = is_apart ? pixels.samples : 1,
               colors = pixels.bits > 8 ? header.bytes_per_pixel / planes : 4;
  double in_file = pixels.is_palette ? 1 : header.bytes_per_pixel;
  if (is_compressed) {
    in_file = std::min(kLargest * in_file, static_cast<double>(file_bytes) / (width * height));
  } else if (pixels.bits > 8) {
    in_file = 0;
  }
  const double share = std::min(rows, height) * std::min(columns, width) / (width * height);
  return std::min(kMostDecoderBytes, share * (colors + in_file / planes));
}

ImageHeader read_tiff(Bytes file) {
  const TiffDirectory directory(file, 0);
  ImageHeader header{ImageFormat::tiff};
  header.width = static_cast<int64_t>(directory.find(256).value_or(0));
  header.height = static_cast<int64_t>(directory.find(257).value_or(0));
  const int bits = static_cast<int>(std::min<uint64_t>(directory.find(258).value_or(8), 64));
  constexpr unsigned kColors = 262, kSampleFormat = 339;
  constexpr uint64_t kPalette = 3, kFloat = 3;
  const bool is_palette = directory.find(kColors).value_or(1) == kPalette;
  const int samples =
      is_palette ? 3 : static_cast<int>(std::clamp<uint64_t>(directory.find(277).value_or(1), 1, 4));
  if (directory.find(kSampleFormat).value_or(1) == kFloat && (samples > 1 || bits != 32))
    throw std::invalid_argument("has a pixel type that is not supported");
  header.bytes_per_pixel = samples * std::max(1, bits / 8);
  header.decoder_bytes = tiff_decoder_bytes(directory, header, {bits, samples, is_palette}, file.size());
  const bool has_alpha = directory.find(338).value_or(0) != 0;
  // libtiff multiplies 8-bit colours by their alpha.
  if (has_alpha) header.alpha = bits == 8 ? Alpha::premultiplied_on_white : Alpha::on_white;
  header.orientation = orientation_at(file, 0);
  header.camera = camera_at(file, 0);
  return header;
}

/// Whether pixels of so few bits name colours of a table at an offset, and all of these are gray.
bool is_gray_palette(const Fields& fields, uint64_t offset, uint64_t stride, uint64_t bits, uint64_t used) {
  if (bits > 8) return false;
  const uint64_t all = uint64_t{1} << bits, colors = used > 0 ? std::min(used, all) : all;
  for (uint64_t at = offset; at < offset + colors * stride; at += stride) {
    if (fields.u8(at) != fields.u8(at + 1) || fields.u8(at) != fields.u8(at + 2)) return false;
  }
  return true;
}

ImageHeader read_bmp(Bytes file) {
  const Fields fields(file, 0, false);
  ImageHeader header{ImageFormat::bmp};
  const uint64_t info = fields.u32(14);
  if (info == 12) {
    header.width = static_cast<int64_t>(fields.u16(18));
    header.height = static_cast<int64_t>(fields.u16(20));
    if (is_gray_palette(fields, 26, 3, fields.u16(24), 0)) header.bytes_per_pixel = 1;
    return header;
  }
  constexpr uint64_t kBitFields = 3;
  header.width = static_cast<int32_t>(fields.u32(18));
  header.height = std::abs(static_cast<int64_t>(static_cast<int32_t>(fields.u32(22))));
  header.bytes_per_pixel = fields.u16(28) == 32 ? 4 : 3;
  if (is_gray_palette(fields, 14 + info, 4, fields.u16(28), fields.u32(46))) header.bytes_per_pixel = 1;
  if (info >= 56 && fields.u32(30) == kBitFields && fields.u32(66) != 0) header.alpha = Alpha::on_white;
  return header;
}

/// Bytes of a pixel while libheif decodes, as measured. libheif copies the planes as they are stored and
/// makes colours of them; the decoder of AV1 makes more copies. Whole chroma of HEVC took no more.
double heif_bytes(const HeifInfo& info) {
  const bool is_deep = info.bits > 8;
  if (!info.is_av1) return is_deep ? (info.alpha ? 16.5 : 12.5) : info.alpha ? 9.1 : 6.8;
  const double whole_chroma = info.whole_chroma ? 3.1 : 0;
  return is_deep ? (info.alpha ? 24 : 21) + 2 * whole_chroma : 14.6 + whole_chroma;
}

// HEIF files of telephones have EXIF's orientation too; by the standard only the rotation in the boxes
// counts.
ImageHeader read_heif(Bytes file) {
  const HeifInfo info = read_heif_info(file);
  ImageHeader header{ImageFormat::heif};
  header.width = info.width;
  header.height = info.height;
  header.bytes_per_pixel = info.alpha ? 4 : 3;
  header.decoder_bytes = heif_bytes(info) - header.bytes_per_pixel;
  if (info.alpha) header.alpha = info.premultiplied ? Alpha::premultiplied_on_white : Alpha::on_white;
  header.camera = camera_at(info.exif, 0);
  return header;
}

}  // namespace

ImageHeader read_image_header(std::span<const std::byte> file) {
  if (file.empty()) throw std::invalid_argument("is empty");
  const Fields fields(file, 0, true);
  ImageHeader header;
  if (fields.holds(0, "\xFF\xD8\xFF")) {
    header = read_jpeg(file);
  } else if (fields.holds(0, "\x89PNG\r\n\x1A\n")) {
    header = read_png(file);
  } else if (fields.holds(0, "RIFF") && fields.holds(8, "WEBP")) {
    header = read_webp(file);
  } else if (fields.holds(0, std::string_view("II*\0", 4)) || fields.holds(0, std::string_view("MM\0*", 4)) ||
             fields.holds(0, std::string_view("II+\0", 4)) || fields.holds(0, std::string_view("MM\0+", 4))) {
    header = read_tiff(file);
  } else if (fields.holds(0, "BM")) {
    header = read_bmp(file);
  } else if (is_heif(file)) {
    header = read_heif(file);
  } else {
    throw std::invalid_argument("is not a JPEG, PNG, WebP, TIFF, BMP, HEIF or AVIF image");
  }
  if (header.width < 1 || header.height < 1)
    throw std::invalid_argument("is a damaged image: it has no size");
  return header;
}

}  // namespace vggt
