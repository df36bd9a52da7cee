#include "app/api/image_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "io/files/numbers.h"

namespace vggt {
namespace {

struct Stride {
  const char* name;
  double bytes;  // either way; a double, which whatever is given cannot overflow
  int count;     // of what it leads to
};

/// What no process can address.
constexpr double kTooFar = 0x1p56;

[[noreturn]] void refuse(std::size_t number, const char* name, const std::string& why) {
  throw std::invalid_argument("image " + std::to_string(number) + ": " + name + ": " + why);
}

void check_reach(std::size_t number, const char* name, double bytes, int count) {
  if (bytes * count >= kTooFar)
    refuse(number, name, "steps of " + number_text(bytes) + " bytes lead beyond all memory");
}

/// Each stride has to step over all that the smaller ones span, in whichever order they are: colours within
/// pixels or planes of their own, rows or columns first.
void check_strides(const ImageInMemory& image, std::size_t number) {
  const auto stride = [](const char* name, std::ptrdiff_t bytes, int count) {
    return Stride{name, std::abs(static_cast<double>(bytes)), count};
  };
  std::array strides = {stride("channel_stride", image.channel_stride, 3),
                        stride("pixel_stride", image.pixel_stride, image.width),
                        stride("row_stride", image.row_stride, image.height)};
  std::ranges::stable_sort(strides, {}, &Stride::bytes);
  double span = 1;
  for (const auto& [name, bytes, count] : strides) {
    if (count <= 1) continue;  // it leads nowhere
    if (bytes < span)
      refuse(number, name,
             "steps of " + number_text(bytes) + " bytes overlap, they need at least " + number_text(span));
    check_reach(number, name, bytes, count);
    span += bytes * (count - 1);
  }
}

}  // namespace

ImageInMemory image_of(const vggt_recon_image& given, std::size_t number) {
  ImageInMemory image{given.pixels,
                      given.width,
                      given.height,
                      given.row_stride,
                      given.pixel_stride,
                      given.channel_stride,
                      given.name ? given.name : ""};
  if (image.channel_stride == 0) image.channel_stride = 1;
  if (image.pixel_stride == 0) image.pixel_stride = 3;
  check_reach(number, "pixel_stride", std::abs(static_cast<double>(image.pixel_stride)), image.width);
  if (image.row_stride == 0) image.row_stride = std::abs(image.pixel_stride) * image.width;
  check_strides(image, number);
  return image;
}

}  // namespace vggt
