#pragma once
#include <cstdint>

// The depth of pixels as a mix of depths around them, on a CPU. Plain arithmetic, without LibTorch.
namespace vggt {

/// What a pixel is mixed of: the depths of the 3×3 blocks around it (row after row), its own, and the nearest
/// and the farthest around.
inline constexpr int64_t kNeighbours = 9, kPixelExtremes = 2, kChoices = kNeighbours + 1 + kPixelExtremes;

/// Of a frame of h×w blocks, each of 4×4 pixels. Depths are logarithms.
struct PixelMix {
  int64_t h, w;
  const float* said;      // [h·w,kChoices,16]: the logarithms of shares
  const float* own;       // [h·w,16]: of the pixels, row after row
  const float* change;    // [h·w]: what the own ones change by
  const float* blocks;    // [h·w]
  const float* extremes;  // [kPixelExtremes,h·w]
  const bool* none;       // [h·w]: blocks without depth; there are no extremes there
};

/// The pixels of the blocks [first, end): writes theirs of [4h,4w]. Beyond the rim the nearest blocks repeat.
/// Blocks without depth have no share.
void mix_pixels(const PixelMix& mix, int64_t first, int64_t end, float* result);

}  // namespace vggt
