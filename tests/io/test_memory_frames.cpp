// Images in the caller's memory and paths give what the same images in files give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "io/frames/original_images.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// rgb noise over slopes, [H,W,3].
std::vector<uint8_t> picture(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> rgb;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int slope : {2 * x, 3 * y, x + y})
        rgb.push_back(static_cast<uint8_t>((static_cast<unsigned>(slope) + random() % 64) & 255U));
    }
  }
  return rgb;
}

void write_png(const test::fs::path& path, int width, int height, const std::vector<uint8_t>& rgb) {
  cv::Mat bgr(height, width, CV_8UC3);
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) bgr.data[i + c] = rgb[i + 2 - c];
  }
  ASSERT_TRUE(cv::imwrite(path.string(), bgr));
}

struct Layout {
  std::string name;
  bool planar = false, flipped = false, spaced = false;
};

/// The image in another order of bytes; `bytes` keeps them.
ImageInMemory laid_out(const Layout& layout, int width, int height, const std::vector<uint8_t>& rgb,
                       std::vector<uint8_t>& bytes) {
  ImageInMemory image{nullptr, width, height, 3 * width, 3, 1, layout.name};
  if (layout.planar) {
    image.row_stride = width;
    image.pixel_stride = 1;
    image.channel_stride = std::ptrdiff_t{width} * height;
  } else if (layout.spaced) {  // RGBA rows with a gap
    image.row_stride = 4 * width + 12;
    image.pixel_stride = 4;
  }
  bytes.assign(static_cast<std::size_t>(height * (4 * width + 12)), 7);
  image.pixels = bytes.data();
  if (layout.flipped) {
    image.pixels += (height - 1) * image.row_stride;
    image.row_stride = -image.row_stride;
  }
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const auto at =
            image.pixels + y * image.row_stride + x * image.pixel_stride + c * image.channel_stride;
        bytes[static_cast<std::size_t>(at - bytes.data())] =
            rgb[static_cast<std::size_t>(3 * (y * width + x) + c)];
      }
    }
  }
  return image;
}

std::vector<uint8_t> gray_of(const FrameSet& set, std::size_t i) {
  std::vector<uint8_t> gray(static_cast<std::size_t>(set.frames[i].gray_width * set.frames[i].gray_height));
  set.read_gray(i, gray);
  return gray;
}

TEST(MemoryFrames, EqualTheSameImagesAsPng) {
  const test::TemporaryFolder folder;
  const std::vector<std::pair<int, int>> sizes = {{160, 90}, {91, 133}, {160, 90}, {64, 64}};
  const std::vector<Layout> layouts = {
      {"a.png"}, {"b.png", true}, {"c.png", false, true}, {"d.png", false, false, true}};
  FrameOptions files, memory;
  std::vector<std::vector<uint8_t>> bytes(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [width, height] = sizes[i];
    const auto rgb = picture(width, height, static_cast<unsigned>(i));
    write_png(folder / layouts[i].name, width, height, rgb);
    memory.images.push_back(laid_out(layouts[i], width, height, rgb, bytes[i]));
  }
  files.source = folder.path();
  for (const Fit fit : {Fit::crop, Fit::pad}) {
    for (FrameOptions* options : {&files, &memory}) {
      options->width = 70;
      options->fit = fit;
      options->gray_side = 48;
    }
    const FrameSet a = load_frames(files), b = load_frames(memory);
    ASSERT_EQ(a.frames.size(), sizes.size());
    ASSERT_EQ(b.frames.size(), sizes.size());
    EXPECT_EQ(a.width, b.width);
    EXPECT_EQ(a.height, b.height);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(a.rgb(i), b.rgb(i)) << i;
      EXPECT_EQ(gray_of(a, i), gray_of(b, i)) << i;
      EXPECT_EQ(a.frames[i].file, b.frames[i].file);
      EXPECT_EQ(a.frames[i].time_s, b.frames[i].time_s);
      EXPECT_EQ(a.frames[i].original_width, b.frames[i].original_width);
      EXPECT_EQ(a.frames[i].map.pad_y, b.frames[i].map.pad_y);
    }
    FrameOptions sizes_alone = memory;
    sizes_alone.pixels = false;
    EXPECT_EQ(load_frames(sizes_alone).height, a.height);
  }
}

TEST(MemoryFrames, PathsAreFramesInTheirOrder) {
  const test::TemporaryFolder folder;
  FrameOptions options;
  options.width = 56;
  for (const char* name : {"b.png", "a.png"}) {
    write_png(folder / name, 80, 60, picture(80, 60, name[0]));
    options.paths.push_back((folder / name).string());
  }
  options.paths.push_back((folder / "missing.png").string());
  const FrameSet set = load_frames(options);
  ASSERT_EQ(set.frames.size(), 2U);
  EXPECT_EQ(set.frames[0].file, options.paths[0]);
  ASSERT_EQ(set.warnings.size(), 1U);
  EXPECT_THAT(set.warnings[0], StartsWith(options.paths[2] + ": "));
  FrameOptions alone;
  alone.width = 56;
  alone.source = folder / "b.png";
  EXPECT_EQ(load_frames(alone).rgb(0), set.rgb(0));
  const OriginalImages originals({}, set);
  EXPECT_TRUE(originals.are_files());
  EXPECT_EQ(originals.read_file(1).rgb, picture(80, 60, 'a'));
}

TEST(MemoryFrames, ChosenOnesKeepTheirOriginals) {
  FrameOptions options;
  options.width = 56;
  options.max_frames = 2;
  std::vector<std::vector<uint8_t>> pictures;
  for (unsigned i = 0; i < 5; ++i) pictures.push_back(picture(60, 60, i));
  for (const auto& rgb : pictures) options.images.push_back({rgb.data(), 60, 60, 180});
  const FrameSet set = load_frames(options);
  ASSERT_EQ(set.frames.size(), 2U);
  EXPECT_EQ(set.frames[1].file, "image_000004");
  const OriginalImages originals({}, set);
  EXPECT_FALSE(originals.are_files());
  EXPECT_EQ(originals.number(1), 4);
  std::vector<std::vector<uint8_t>> seen;
  originals.read_all([&](std::size_t, const RgbImage& image) { seen.push_back(image.rgb); });
  EXPECT_EQ(seen, (std::vector{pictures[0], pictures[4]}));
}

std::string refusal(const FrameOptions& options) {
  try {
    load_frames(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

TEST(MemoryFrames, WhatIsNoImageIsNamed) {
  const std::vector<uint8_t> rgb = picture(60, 60, 1);
  FrameOptions options;
  options.width = 56;
  options.images = {{rgb.data(), 60, 60, 180}, {nullptr, 60, 60, 180, 3, 1, "left"}};
  EXPECT_EQ(refusal(options), "image 1 (left): has no pixels");
  options.images[1].pixels = rgb.data();
  options.images[1].height = 0;
  EXPECT_THAT(refusal(options), HasSubstr("must be positive, not 60x0"));
  options.images[1].width = options.images[1].height = 1 << 20;
  EXPECT_THAT(refusal(options), HasSubstr("too large"));
  options.paths = {"a.png"};
  EXPECT_THAT(refusal(options), HasSubstr("not several"));
  FrameOptions rate;
  rate.width = 56;
  EXPECT_THAT(refusal(rate), HasSubstr("no frames were given"));
  rate.images = {{rgb.data(), 60, 60, 180}};
  rate.fps = 2;
  EXPECT_THAT(refusal(rate), StartsWith("fps: "));
}

}  // namespace
}  // namespace vggt
