#include "io/frames/heif_image.h"

#include <libheif/heif.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vggt {
namespace {

using Bytes = std::span<const std::byte>;

uint32_t big_u32(Bytes bytes, std::size_t at) {
  uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  return value;
}

void check(const heif_error& error) {
  if (error.code == heif_error_Ok) return;
  if (error.code == heif_error_Memory_allocation_error)
    throw std::invalid_argument("needs more memory than there is, or than libheif allows");
  if (error.code == heif_error_Unsupported_filetype || error.code == heif_error_Unsupported_feature)
    throw std::invalid_argument("is a HEIF image that libheif cannot decode here (" +
                                std::string(error.message ? error.message : "") + ")");
  std::string what = error.message ? error.message : "";
  what = what.substr(0, what.find('\n'));
  throw std::invalid_argument("is a damaged HEIF image" + (what.empty() ? what : " (" + what + ")"));
}

template <class T, void (*kFree)(T*)>
struct Freeing {
  void operator()(T* pointer) const { kFree(pointer); }
};

/// The primary image of a file, whose bytes outlive it.
class PrimaryImage {
 public:
  explicit PrimaryImage(Bytes file) : context_(heif_context_alloc()) {
    if (!context_) throw std::bad_alloc();
    check(heif_context_read_from_memory_without_copy(context_.get(), file.data(), file.size(), nullptr));
    heif_context_set_max_decoding_threads(context_.get(), 0);  // the frames themselves are many
    heif_image_handle* handle = nullptr;
    check(heif_context_get_primary_image_handle(context_.get(), &handle));
    handle_.reset(handle);
  }
  const heif_image_handle* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<heif_context, Freeing<heif_context, heif_context_free>> context_;
  std::unique_ptr<heif_image_handle, Freeing<const heif_image_handle, heif_image_handle_release>> handle_;
};

/// The TIFF directory out of the block of EXIF, which begins with its offset.
std::vector<std::byte> read_exif(const heif_image_handle* handle) {
  constexpr std::size_t kMost = 1 << 20;
  heif_item_id id = 0;
  if (heif_image_handle_get_list_of_metadata_block_IDs(handle, "Exif", &id, 1) != 1) return {};
  const std::size_t size = heif_image_handle_get_metadata_size(handle, id);
  if (size < 4 || size > kMost) return {};
  std::vector<std::byte> block(size);
  if (heif_image_handle_get_metadata(handle, id, block.data()).code != heif_error_Ok) return {};
  const std::size_t skipped = std::min<std::size_t>(size - 4, big_u32(block, 0)) + 4;
  block.erase(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(skipped));
  return block;
}

HeifInfo info_of(const heif_image_handle* handle) {
  HeifInfo info;
  info.width = heif_image_handle_get_width(handle);
  info.height = heif_image_handle_get_height(handle);
  info.bits = std::max(8, heif_image_handle_get_luma_bits_per_pixel(handle));
  info.alpha = heif_image_handle_has_alpha_channel(handle) != 0;
  info.premultiplied = info.alpha && heif_image_handle_is_premultiplied_alpha(handle) != 0;
  return info;
}

/// What libheif does not tell: whether the images are AV1's, and their chroma, where the boxes that say it
/// are near the file's beginning, as they usually are; else as if it were whole.
void read_av1_chroma(Bytes file, HeifInfo& info) {
  constexpr std::string_view kBox = "av1C", kBrand = "avif";
  constexpr std::size_t kFlags = 6, kMost = 1 << 16;  // after the name: version, profile and level, flags
  constexpr unsigned kOneColor = 16, kHalvedDown = 4;
  const std::string_view head(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kMost));
  bool is_told = false;
  for (std::size_t at = head.find(kBox); at != head.npos && at + kFlags < head.size();
       at = head.find(kBox, at + 1)) {
    const auto flags = static_cast<unsigned char>(head[at + kFlags]);
    is_told = true;
    info.whole_chroma = info.whole_chroma || (flags & (kOneColor | kHalvedDown)) == 0;
  }
  info.is_av1 = is_told || head.substr(8).starts_with(kBrand);
  info.whole_chroma = info.whole_chroma || (info.is_av1 && !is_told);
}

/// Rows of interleaved RGB or RGBA as BGR or BGRA.
cv::Mat with_blue_first(const uint8_t* rgb, int stride, int width, int height, int channels) {
  cv::Mat pixels(height, width, CV_8UC(channels));
  for (int y = 0; y < height; ++y) {
    const uint8_t* from = rgb + static_cast<std::ptrdiff_t>(y) * stride;
    auto* to = pixels.ptr<uint8_t>(y);
    for (int x = 0; x < width; ++x, from += channels, to += channels) {
      to[0] = from[2];
      to[1] = from[1];
      to[2] = from[0];
      if (channels == 4) to[3] = from[3];
    }
  }
  return pixels;
}

}  // namespace

bool is_heif(Bytes file) {
  constexpr std::array<std::string_view, 11> kBrands = {"heic", "heix", "heim", "heis", "hevc", "hevx",
                                                        "mif1", "mif2", "msf1", "avif", "avis"};
  if (file.size() < 16 || std::memcmp(&file[4], "ftyp", 4) != 0) return false;
  const std::size_t end = std::min<std::size_t>(file.size(), big_u32(file, 0));
  for (std::size_t at = 8; at + 4 <= end; at += at == 8 ? 8 : 4) {  // between the first two is a version
    const std::string_view brand(reinterpret_cast<const char*>(&file[at]), 4);
    if (std::ranges::count(kBrands, brand) > 0) return true;
  }
  return false;
}

HeifInfo read_heif_info(Bytes file) {
  const PrimaryImage image(file);
  HeifInfo info = info_of(image.handle());
  info.exif = read_exif(image.handle());
  read_av1_chroma(file, info);
  return info;
}

cv::Mat decode_heif(Bytes file) {
  const PrimaryImage primary(file);
  const HeifInfo info = info_of(primary.handle());
  const std::unique_ptr<heif_decoding_options, Freeing<heif_decoding_options, heif_decoding_options_free>>
      options(heif_decoding_options_alloc());
  if (!options) throw std::bad_alloc();
  options->convert_hdr_to_8bit = 1;
  options->strict_decoding = 1;  // else what is damaged is made up for
  options->decoder_id = "aom";   // of AV1, where it is: dav1d writes to stderr what it finds damaged
  heif_image* decoded = nullptr;
  check(heif_decode_image(primary.handle(), &decoded, heif_colorspace_RGB,
                          info.alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB,
                          options.get()));
  const std::unique_ptr<heif_image, Freeing<const heif_image, heif_image_release>> image(decoded);
  const int width = heif_image_get_width(decoded, heif_channel_interleaved),
            height = heif_image_get_height(decoded, heif_channel_interleaved);
  if (width != info.width || height != info.height)
    throw std::invalid_argument("is a damaged HEIF image: it is not as large as it says");
  int stride = 0;
  const uint8_t* rgb = heif_image_get_plane_readonly(decoded, heif_channel_interleaved, &stride);
  if (rgb == nullptr) throw std::invalid_argument("cannot be decoded");
  return with_blue_first(rgb, stride, width, height, info.alpha ? 4 : 3);
}

}  // namespace vggt
