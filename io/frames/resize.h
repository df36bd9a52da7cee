#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace vggt {

/// Writes row y of an 8-bit RGB image, interleaved, to `rgb`.
using RowReader = std::function<void(int y, uint8_t* rgb)>;

/// The size that an image is resized to, and the rows of the result that are wanted.
struct ResizeTarget {
  int width = 0;
  int64_t height = 0;
  int64_t first_row = 0;
  int rows = 0;
};

/// The wanted rows of the resized image, planes [3,rows,width], equal bit for bit to Pillow's Image.resize
/// with BICUBIC on 8-bit RGB: antialiased (a = -0.5), a horizontal and then a vertical pass with an 8-bit
/// image between them. Only the source rows that the wanted rows depend on are read, in ascending order.
std::vector<uint8_t> resize_bicubic(int width, int height, const RowReader& read_row,
                                    const ResizeTarget& target);

}  // namespace vggt
