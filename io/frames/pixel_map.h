#pragma once

namespace vggt {

/// From network pixels to original pixels and back, pixel centres at integers: x_o + 0.5 = (x_n + 0.5 -
/// pad)/scale. "Original" is the upright image, after its EXIF orientation.
struct PixelMap {
  double scale_x = 1, scale_y = 1;  // network pixels per original pixel
  double pad_x = 0, pad_y = 0;      // network pixels; negative where the image was cropped
  double original_x(double network_x) const { return (network_x + 0.5 - pad_x) / scale_x - 0.5; }
  double original_y(double network_y) const { return (network_y + 0.5 - pad_y) / scale_y - 0.5; }
  double network_x(double original_x) const { return (original_x + 0.5) * scale_x + pad_x - 0.5; }
  double network_y(double original_y) const { return (original_y + 0.5) * scale_y + pad_y - 0.5; }
};

}  // namespace vggt
