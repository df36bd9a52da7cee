// What the decoders of videos hold, beside what 8K videos took (two threads).
#include <gtest/gtest.h>

#include <string_view>

#include "io/frames/decoder_memory.h"

namespace vggt {
namespace {

uint32_t named(std::string_view text) {
  uint32_t name = 0;
  for (std::size_t i = text.size(); i-- > 0;) name = name << 8 | static_cast<unsigned char>(text[i]);
  return name;
}

/// A format of several planes by FFmpeg's four bytes, such as 'Y', '3', 11, 10.
uint32_t planes(char count, int halved, int bits) {
  return named(std::string{'Y', count, static_cast<char>(halved), static_cast<char>(bits)});
}

TEST(DecoderMemory, IsWithinATenthOfWhatVideosTook) {
  struct Video {
    const char* codec;
    uint32_t format;
    double measured;  // bytes of a pixel, without OpenCV's copy and the frame that is taken
  };
  for (const Video& video : std::initializer_list<Video>{{"MJPG", named("I420"), 4.5},
                                                         {"apch", planes('3', 10, 10), 12.8},
                                                         {"FFV1", named("I420"), 6.6},
                                                         {"FFV1", planes('3', 0, 10), 15},
                                                         {"HFYU", named("Y42B"), 10.8},
                                                         {"FFVH", named("I420"), 8.8},
                                                         {"AVdh", named("Y42B"), 9.3},
                                                         {"AVdh", planes('3', 10, 10), 12.9},
                                                         {"mjp2", named("I420"), 28.6},
                                                         {"png ", named("Y800"), 6},
                                                         {"png ", named("RGB\x18"), 12.2},
                                                         {"png ", named("0RGB"), 21.7},
                                                         {"png ", named("@RBA"), 28.2},
                                                         {"tiff", named("RGB\x18"), 14.9},
                                                         {"I420", named("I420"), 4.3},
                                                         {"hev1", named("I420"), 17.1},
                                                         {"hev1", planes('3', 11, 10), 31.7},
                                                         {"av01", named("I420"), 24.5}}) {
    EXPECT_NEAR(decoder_bytes_of_pixel(named(video.codec), video.format, std::nullopt, 2), video.measured,
                .1 * video.measured)
        << video.codec;
  }
}

TEST(DecoderMemory, GrowsWithThreadsAndWithTheReferencesThatAContainerTells) {
  const uint32_t h264 = named("avc1"), format = named("I420");
  const auto frames = [&](uint32_t codec, std::optional<int> references, unsigned threads) {
    return decoder_bytes_of_pixel(codec, format, references, threads) / 1.5;
  };
  EXPECT_DOUBLE_EQ(frames(h264, std::nullopt, 2), 9);
  EXPECT_DOUBLE_EQ(frames(h264, 1, 2), 7);
  EXPECT_DOUBLE_EQ(frames(h264, 16, 8), 28);
  EXPECT_DOUBLE_EQ(frames(h264, 3, 64), frames(h264, 3, 16));  // more OpenCV does not ask for
  EXPECT_DOUBLE_EQ(frames(h264, 3, 0), frames(h264, 3, 1));
  EXPECT_DOUBLE_EQ(frames(named("rawv"), 3, 16), frames(named("rawv"), 3, 1));
}

}  // namespace
}  // namespace vggt
