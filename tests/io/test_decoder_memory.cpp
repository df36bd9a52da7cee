// What the decoders of videos hold, beside what 8K videos took (two threads).
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "io/frames/decoder_memory.h"
#include "io/frames/fourcc.h"

namespace vggt {
namespace {

/// A format of several planes by FFmpeg's four bytes, such as 'Y', '3', 11, 10.
uint32_t planes(char count, int halved, int bits) {
  return fourcc(std::string{'Y', count, static_cast<char>(halved), static_cast<char>(bits)});
}

TEST(DecoderMemory, IsWithinATenthOfWhatVideosTook) {
  struct Video {
    const char* codec;
    uint32_t format;
    double measured;  // bytes of a pixel, without OpenCV's copy and the frame that is taken
    std::optional<int> references = std::nullopt;
  };
  for (const Video& video : std::initializer_list<Video>{
           {"MJPG", fourcc("I420"), 4.5},          {"apch", planes('3', 10, 10), 12.8},
           {"FFV1", fourcc("I420"), 6.6},          {"FFV1", planes('3', 0, 10), 15},
           {"HFYU", fourcc("Y42B"), 10.8},         {"FFVH", fourcc("I420"), 8.8},
           {"AVdh", fourcc("Y42B"), 9.3},          {"AVdh", planes('3', 10, 10), 12.9},
           {"mjp2", fourcc("I420"), 28.6},         {"png ", fourcc("Y800"), 6},
           {"png ", fourcc("RGB\x18"), 12.2},      {"png ", fourcc("0RGB"), 21.7},
           {"png ", fourcc("@RBA"), 28.2},         {"tiff", fourcc("RGB\x18"), 14.9},
           {"I420", fourcc("I420"), 4.3},          {"hev1", fourcc("I420"), 17.1},
           {"hev1", planes('3', 11, 10), 31.7},    {"hev1", fourcc("I420"), 17.1, 4},
           {"hev1", planes('3', 11, 10), 31.7, 5}, {"hev1", planes('3', 10, 10), 84.1, 15},
           {"av01", fourcc("I420"), 24.5},         {"h264", fourcc("I420"), 10.6, 1},
           {"h264", fourcc("I420"), 17.3, 4},      {"h264", planes('3', 10, 10), 18.2, 1},
           {"h264", fourcc("444P"), 39.4, 8},      {"theo", fourcc("I420"), 15.8},
           {"FMP4", fourcc("I420"), 12.6},         {"mpg2", fourcc("I420"), 7.7},
           {"WMV2", fourcc("I420"), 7.3},          {"VP80", fourcc("I420"), 10.2},
           {"VP90", fourcc("I420"), 10.1},         {"ULY0", fourcc("I420"), 7.1},
           {"ULY2", fourcc("Y42B"), 8.3},          {"ULRG", planes('3', 0, 8), 11.2},
           {"M8Y0", fourcc("I420"), 7.5},          {"CFHD", planes('3', 10, 10), 28.9},
           {"v210", planes('3', 10, 10), 16.1},    {"Hap1", fourcc("RGBA"), 11.8},
           {"MJLS", fourcc("RGB\x18"), 6}}) {
    EXPECT_NEAR(decoder_bytes_of_pixel(fourcc(video.codec), video.format, video.references, 2),
                video.measured, .1 * video.measured)
        << video.codec << ' ' << video.format << ' ' << video.references.value_or(0);
  }
}

TEST(DecoderMemory, GrowsWithThreadsAndWithTheReferencesThatAContainerTells) {
  const auto bytes = [](const char* codec, std::optional<int> references, unsigned threads) {
    return decoder_bytes_of_pixel(fourcc(codec), fourcc("I420"), references, threads);
  };
  EXPECT_NEAR(bytes("h264", 3, 8) - bytes("h264", 3, 2), 6 * 2.2, 6 * .3);  // frames with motion vectors
  EXPECT_NEAR(bytes("h264", 16, 2) - bytes("h264", 1, 2), 15 * 2.2, 15 * .3);
  EXPECT_DOUBLE_EQ(bytes("avc1", 4, 2), bytes("h264", 4, 2));
  EXPECT_DOUBLE_EQ(bytes("h264", std::nullopt, 2), bytes("h264", 3, 2));  // x264's usual
  EXPECT_DOUBLE_EQ(bytes("h264", 0, 2), bytes("h264", 1, 2));             // one is held for itself
  EXPECT_DOUBLE_EQ(bytes("h264", 3, 64), bytes("h264", 3, 16));           // more OpenCV does not ask for
  EXPECT_DOUBLE_EQ(bytes("h264", 3, 0), bytes("h264", 3, 1));
  EXPECT_DOUBLE_EQ(bytes("rawv", 3, 16), bytes("rawv", 3, 1));
}

}  // namespace
}  // namespace vggt
