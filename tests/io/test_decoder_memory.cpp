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
    std::optional<int> references = std::nullopt;
  };
  for (const Video& video : std::initializer_list<Video>{
           {"MJPG", named("I420"), 4.5},           {"apch", planes('3', 10, 10), 12.8},
           {"FFV1", named("I420"), 6.6},           {"FFV1", planes('3', 0, 10), 15},
           {"HFYU", named("Y42B"), 10.8},          {"FFVH", named("I420"), 8.8},
           {"AVdh", named("Y42B"), 9.3},           {"AVdh", planes('3', 10, 10), 12.9},
           {"mjp2", named("I420"), 28.6},          {"png ", named("Y800"), 6},
           {"png ", named("RGB\x18"), 12.2},       {"png ", named("0RGB"), 21.7},
           {"png ", named("@RBA"), 28.2},          {"tiff", named("RGB\x18"), 14.9},
           {"I420", named("I420"), 4.3},           {"hev1", named("I420"), 17.1},
           {"hev1", planes('3', 11, 10), 31.7},    {"av01", named("I420"), 24.5},
           {"h264", named("I420"), 10.6, 1},       {"h264", named("I420"), 17.3, 4},
           {"h264", planes('3', 10, 10), 18.2, 1}, {"h264", named("444P"), 39.4, 8},
           {"theo", named("I420"), 15.8},          {"FMP4", named("I420"), 12.6},
           {"mpg2", named("I420"), 7.7},           {"WMV2", named("I420"), 7.3},
           {"VP80", named("I420"), 10.2},          {"VP90", named("I420"), 10.1},
           {"ULY0", named("I420"), 7.1},           {"ULY2", named("Y42B"), 8.3},
           {"ULRG", planes('3', 0, 8), 11.2},      {"M8Y0", named("I420"), 7.5},
           {"CFHD", planes('3', 10, 10), 28.9},    {"v210", planes('3', 10, 10), 16.1},
           {"Hap1", named("RGBA"), 11.8},          {"MJLS", named("RGB\x18"), 6}}) {
    EXPECT_NEAR(decoder_bytes_of_pixel(named(video.codec), video.format, video.references, 2), video.measured,
                .1 * video.measured)
        << video.codec;
  }
}

TEST(DecoderMemory, GrowsWithThreadsAndWithTheReferencesThatAContainerTells) {
  const auto bytes = [](const char* codec, std::optional<int> references, unsigned threads) {
    return decoder_bytes_of_pixel(named(codec), named("I420"), references, threads);
  };
  EXPECT_GE(bytes("h264", 16, 8) - bytes("h264", 1, 2), 21 * 1.5);        // the frames that more are held
  EXPECT_DOUBLE_EQ(bytes("h264", std::nullopt, 2), bytes("h264", 3, 2));  // x264's usual
  EXPECT_DOUBLE_EQ(bytes("h264", 0, 2), bytes("h264", 1, 2));             // one is held for itself
  EXPECT_DOUBLE_EQ(bytes("h264", 3, 64), bytes("h264", 3, 16));           // more OpenCV does not ask for
  EXPECT_DOUBLE_EQ(bytes("h264", 3, 0), bytes("h264", 3, 1));
  EXPECT_DOUBLE_EQ(bytes("rawv", 3, 16), bytes("rawv", 3, 1));
}

}  // namespace
}  // namespace vggt
