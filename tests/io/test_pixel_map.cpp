// Network pixels and original pixels map to each other, through scale, crop, padding, centring and EXIF.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "io/frames/frames.h"
#include "io/frames/preprocess.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

struct Case {
  std::string name;
  Fit fit;
  int width, height, network_width;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class PixelMapOf : public testing::TestWithParam<Case> {};

// The picture's colour says where an original pixel is, so each network pixel tells where it came from.
void expect_positions(const FrameSet& set, std::size_t index, double tolerance) {
  const Frame& frame = set.frames[index];
  const std::vector<uint8_t> rgb = set.rgb(index);
  const auto at = [&](int c, int x, int y) { return rgb[(c * set.height + y) * set.width + x]; };
  const double red = 255.0 / (frame.original_width - 1), green = 255.0 / (frame.original_height - 1);
  int inside = 0;
  for (int y = 0; y < set.height; ++y) {
    for (int x = 0; x < set.width; ++x) {
      const double ox = frame.map.original_x(x), oy = frame.map.original_y(y);
      const bool outside =
          ox < -0.5 || oy < -0.5 || ox > frame.original_width - 0.5 || oy > frame.original_height - 0.5;
      if (outside) {
        ASSERT_EQ(at(0, x, y) + at(1, x, y) + at(2, x, y), 3 * 255) << x << " " << y;
        continue;
      }
      // The cubic bends near the border, where taps are missing.
      const double margin = 2 + 2 / std::min(frame.map.scale_x, frame.map.scale_y);
      const bool near_border = ox < margin || oy < margin || ox > frame.original_width - 1 - margin ||
                               oy > frame.original_height - 1 - margin;
      if (near_border) continue;
      ++inside;
      ASSERT_NEAR(at(0, x, y), ox * red, tolerance) << x << " " << y;
      ASSERT_NEAR(at(1, x, y), oy * green, tolerance) << x << " " << y;
    }
  }
  EXPECT_GT(inside, 500);
}

void expect_inverse(const PixelMap& map) {
  for (const double value : {-3.5, 0.0, 0.25, 17.0, 1234.5}) {
    EXPECT_NEAR(map.network_x(map.original_x(value)), value, 1e-9);
    EXPECT_NEAR(map.original_x(map.network_x(value)), value, 1e-9);
    EXPECT_NEAR(map.network_y(map.original_y(value)), value, 1e-9);
    EXPECT_NEAR(map.original_y(map.network_y(value)), value, 1e-9);
  }
}

TEST_P(PixelMapOf, TellsWherePixelsComeFrom) {
  const Case& c = GetParam();
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.png", test::encoded(".png", test::position_picture(c.width, c.height)));
  FrameOptions options;
  options.source = folder.path();
  options.fit = c.fit;
  options.width = c.network_width;
  const FrameSet set = load_frames(options);
  const Frame& frame = set.frames.at(0);
  EXPECT_EQ(frame.original_width, c.width);
  EXPECT_EQ(frame.original_height, c.height);
  expect_inverse(frame.map);
  expect_positions(set, 0, 1.5);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PixelMapOf,
    testing::Values(Case{"crop_wide", Fit::crop, 300, 170, 140}, Case{"crop_tall", Fit::crop, 170, 400, 140},
                    Case{"crop_up", Fit::crop, 90, 71, 196}, Case{"pad_wide", Fit::pad, 300, 170, 140},
                    Case{"pad_tall", Fit::pad, 170, 400, 140}, Case{"pad_up", Fit::pad, 71, 90, 196},
                    Case{"whole_wide", Fit::whole, 300, 170, 140},
                    Case{"whole_tall", Fit::whole, 170, 400, 140}, Case{"whole_up", Fit::whole, 71, 90, 196}),
    [](const auto& info) { return info.param.name; });

TEST(PixelMapOfSets, WholeFramesAreNeitherCutNorPadded) {
  for (const auto& [width, height, network_width, network_height] :
       {std::array{300, 200, 140, 98}, {200, 300, 98, 140}, {3024, 4032, 252, 336}, {100, 100, 140, 140}}) {
    const FittedImage fitted =
        fit_size(width, height, Fit::whole, std::max(network_width, network_height), 14);
    EXPECT_EQ(fitted.width, network_width);
    EXPECT_EQ(fitted.height, network_height);
    EXPECT_NEAR(fitted.map.network_x(-0.5), -0.5, 1e-9);
    EXPECT_NEAR(fitted.map.network_y(-0.5), -0.5, 1e-9);
    EXPECT_NEAR(fitted.map.network_x(width - 0.5), network_width - 0.5, 1e-9);
    EXPECT_NEAR(fitted.map.network_y(height - 0.5), network_height - 0.5, 1e-9);
  }
}

TEST(PixelMapOfSets, UprightAndLyingFramesShareASquareOfWhite) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.png", test::encoded(".png", test::position_picture(300, 200)));
  test::write_bytes(folder / "b.png", test::encoded(".png", test::position_picture(200, 300)));
  FrameOptions options;
  options.source = folder.path();
  options.width = 140;
  options.fit = Fit::whole;
  test::expect_sized(options);
  const FrameSet set = load_frames(options);
  EXPECT_EQ(set.width, 140);
  EXPECT_EQ(set.height, 140);
  EXPECT_EQ(set.frames[0].map.pad_y, 21);
  EXPECT_EQ(set.frames[1].map.pad_x, 21);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    expect_inverse(set.frames[i].map);
    expect_positions(set, i, 1.5);
  }
}

TEST(PixelMapOfSets, CentringMovesIt) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.png", test::encoded(".png", test::position_picture(300, 200)));
  test::write_bytes(folder / "b.png", test::encoded(".png", test::position_picture(300, 90)));
  test::write_bytes(folder / "c.png", test::encoded(".png", test::position_picture(150, 400)));
  FrameOptions options;
  options.source = folder.path();
  options.width = 140;
  const FrameSet set = load_frames(options);
  EXPECT_EQ(set.height, 140);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    expect_inverse(set.frames[i].map);
    expect_positions(set, i, 1.5);
  }
}

class Orientation : public testing::TestWithParam<int> {};

TEST_P(Orientation, OriginalMeansUpright) {
  const int orientation = GetParam();
  const test::TemporaryFolder folder;
  const cv::Mat upright = test::position_picture(320, 200);
  const auto jpeg = test::encoded(".jpg", test::stored_picture(upright, orientation));
  test::write_bytes(folder / "big.jpg", test::with_exif(jpeg, orientation, true));
  test::write_bytes(folder / "little.jpg", test::with_exif(jpeg, orientation, false));
  FrameOptions options;
  options.source = folder.path();
  for (const Fit fit : {Fit::crop, Fit::pad, Fit::whole}) {
    options.fit = fit;
    options.width = 140;
    const FrameSet set = load_frames(options);
    ASSERT_EQ(set.frames.size(), 2U);
    EXPECT_EQ(set.height, fit == Fit::pad ? 140 : 84);
    for (std::size_t i = 0; i < set.frames.size(); ++i) {
      EXPECT_EQ(set.frames[i].original_width, 320);
      EXPECT_EQ(set.frames[i].original_height, 200);
      expect_positions(set, i, 6);  // JPEG
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exif, Orientation, testing::Range(1, 9));

TEST(Orientation, ADamagedExifBlockIsIgnored) {
  const test::TemporaryFolder folder;
  auto jpeg = test::with_exif(test::encoded(".jpg", test::position_picture(320, 200)), 6, false);
  jpeg[12 + 4] = 0xFF;  // the directory begins past the end
  jpeg[12 + 7] = 0xFF;
  test::write_bytes(folder / "a.jpg", jpeg);
  FrameOptions options;
  options.source = folder.path();
  const FrameSet set = load_frames(options);
  EXPECT_EQ(set.frames.at(0).original_width, 320);
}

}  // namespace
}  // namespace vggt
