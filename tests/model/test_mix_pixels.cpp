// Pixels mixed of depths around them, beside sums in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "model/refine/mix_pixels.h"

namespace vggt {
namespace {

constexpr int64_t kSide = 4, kPixels = kSide * kSide;
constexpr float kUntouched = -77;

/// A frame of random numbers; every third block or so has no depth.
class RandomFrame {
 public:
  RandomFrame(int64_t h, int64_t w) : none_(new bool[static_cast<std::size_t>(h * w)]) {
    const int64_t blocks = h * w;
    for (int64_t i = 0; i < blocks; ++i) none_[static_cast<std::size_t>(i)] = uniform_(random_) > 1;
    said_ = drawn(blocks * kChoices * kPixels, 4);
    own_ = drawn(blocks * kPixels, 1);
    change_ = drawn(blocks, 0.2F);
    blocks_ = drawn(blocks, 1);
    extremes_ = drawn(blocks * kPixelExtremes, 1);
    mix_ = {h, w, said_.data(), own_.data(), change_.data(), blocks_.data(), extremes_.data(), none_.get()};
  }

  const PixelMix& mix() const { return mix_; }
  float& said(int64_t block, int64_t choice, int64_t pixel) {
    return said_[static_cast<std::size_t>((block * kChoices + choice) * kPixels + pixel)];
  }
  bool none(int64_t block) const { return none_[static_cast<std::size_t>(block)]; }

  double expected(int64_t row, int64_t column, int64_t pixel) {
    const int64_t block = row * mix_.w + column;
    double sum = 0, total = 0;
    const auto add = [&](int64_t choice, double depth) {
      const double share = std::exp(double{said(block, choice, pixel)});
      sum += share * depth;
      total += share;
    };
    for (int64_t i = 0; i < kNeighbours; ++i) {
      const int64_t y = std::clamp<int64_t>(row + i / 3 - 1, 0, mix_.h - 1),
                    x = std::clamp<int64_t>(column + i % 3 - 1, 0, mix_.w - 1);
      if (!none(y * mix_.w + x)) add(i, mix_.blocks[y * mix_.w + x]);
    }
    add(kNeighbours, double{mix_.own[block * kPixels + pixel]} + mix_.change[block]);
    for (int64_t i = 0; i < kPixelExtremes; ++i) {
      if (!none(block)) add(kNeighbours + 1 + i, mix_.extremes[i * mix_.h * mix_.w + block]);
    }
    return sum / total;
  }

 private:
  std::vector<float> drawn(int64_t count, float scale) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = scale * (uniform_(random_) - 0.75F);
    return values;
  }

  std::mt19937 random_{3};
  std::uniform_real_distribution<float> uniform_{0, 1.5F};
  std::unique_ptr<bool[]> none_;
  std::vector<float> said_, own_, change_, blocks_, extremes_;
  PixelMix mix_{};
};

class MixPixels : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(MixPixels, AreSumsByShares) {
  const auto [h, w] = GetParam();
  RandomFrame frame(h, w);
  // The last block's pixels are left for another call.
  std::vector<float> found(static_cast<std::size_t>(h * w * kPixels), kUntouched);
  mix_pixels(frame.mix(), 0, h * w - 1, found.data());
  for (int64_t y = 0; y < kSide * h; ++y) {
    for (int64_t x = 0; x < kSide * w; ++x) {
      const float value = found[static_cast<std::size_t>(y * kSide * w + x)];
      const bool is_last = y / kSide == h - 1 && x / kSide == w - 1;
      const double expected =
          is_last ? kUntouched : frame.expected(y / kSide, x / kSide, y % kSide * kSide + x % kSide);
      EXPECT_NEAR(value, expected, 1e-6) << y << ' ' << x;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MixPixels,
                         ::testing::Values(std::pair(1, 2), std::pair(1, 5), std::pair(5, 1), std::pair(3, 4),
                                           std::pair(7, 9)));

TEST(MixPixelsOf, OneBlockAreOfItself) {
  RandomFrame frame(1, 1);
  std::vector<float> found(kPixels);
  mix_pixels(frame.mix(), 0, 1, found.data());
  for (int64_t pixel = 0; pixel < kPixels; ++pixel)
    EXPECT_NEAR(found[static_cast<std::size_t>(pixel)], frame.expected(0, 0, pixel), 1e-6);
}

TEST(MixPixelsOf, AShareThatIsNoNumberSpoilsItsPixelAlone) {
  RandomFrame frame(3, 4);
  constexpr int64_t kBlock = 5, kPixel = 6;
  frame.said(kBlock, kNeighbours, kPixel) = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> found(12 * kPixels);
  mix_pixels(frame.mix(), 0, 12, found.data());
  EXPECT_EQ(std::ranges::count_if(found, [](float x) { return std::isnan(x); }), 1);
  EXPECT_TRUE(std::isnan(found[static_cast<std::size_t>((4 + kPixel / 4) * 16 + 4 + kPixel % 4)]));
}

}  // namespace
}  // namespace vggt
