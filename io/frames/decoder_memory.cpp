#include "io/frames/decoder_memory.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "io/frames/fourcc.h"

namespace vggt {
namespace {

/// What the decoder of some codecs holds.
struct CodecMemory {
  std::array<std::string_view, 9> names;  // four letters, as containers have them
  bool is_threaded = true;                // with a frame for each thread
  double frames = 0;                      // others
  double bytes = 0;                       // of a pixel, whatever the format
  double copies = 1;                      // of a frame: the numbers it is made from
  double more = 0;                        // frames beside those that a container says are kept; 0: not used
  double motion = 0;                      // motion vectors and the like: bytes of a pixel of each frame
};

constexpr std::array<CodecMemory, 21> kCodecs = {{
    {{"MJPG", "mjpg", "jpeg"}, true, 1},
    {{"MJLS"}, false, 2},
    {{"apcn", "apch", "apcs", "apco", "ap4h", "ap4x"}, true, 1},
    {{"Hap1", "Hap5", "HapY", "HapA", "HapM"}, true, 1},
    {{"FFV1", "ffv1"}, true, 0, 4},
    {{"HFYU", "FFVH"}, true, 1, 4.5},
    {{"ULY0", "ULY2", "ULY4", "ULH0", "ULH2", "ULH4", "ULRG", "ULRA"}, true, 1, 2},
    {{"M8Y0", "M8Y2", "M8Y4", "M8RG", "M8RA"}, true, 1, 3},
    {{"AVdn", "AVdh"}, true, 0, 5.5},
    {{"CFHD"}, true, 0, 0, 3.6},
    {{"v210"}, true, 0, 0, 2},
    {{"mjp2"}, true, 0, 0, 10},
    {{"MPNG", "png "}, true, 1, 3},
    {{"tiff"}, true, 1, 6},
    {{"raw ", "rawv", "I420", "rle "}, false, 2, 1.3},
    // Numbers are stream types of a transport stream.
    {{"mpg1", "mpg2", "mp1v", "mp2v", {"\1\0\0\0", 4}, {"\2\0\0\0", 4}}, false, 5},
    {{"WMV1", "WMV2", "WMV3", "WVC1", "MP42", "MP43", "DIV3", "H263", "FLV1"}, false, 5},
    {{"FMP4", "mp4v", "MP4V", "XVID", "xvid", "DIVX", "DX50"}, true, 6, 1},
    {{"hvc1", "hev1", "hevc", "HEVC", "dvh1"}, true, 9, 0, 1, 4.5},
    {{"VP80", "vp08", "VP90", "vp09"}, true, 5},
    {{"av01", "AV01"}, true, 14},
}};

/// Codecs that are not listed count as H.264, which holds the frames that others are predicted from. Its
/// figures are fitted to videos of 1 to 8 reference frames, from 4:2:0 to 4:4:4.
CodecMemory memory_of(uint32_t codec, std::optional<int> reference_frames) {
  constexpr int kUsualReferences = 3;
  std::array<char, 4> letters{};
  for (std::size_t i = 0; i < letters.size(); ++i) letters[i] = static_cast<char>(codec >> 8 * i & 255);
  const std::string_view name(letters.data(), letters.size());
  for (const CodecMemory& memory : kCodecs) {
    if (std::ranges::count(memory.names, name) == 0) continue;
    CodecMemory found = memory;
    if (found.more > 0 && reference_frames)
      found.frames = std::max(found.frames, *reference_frames + found.more);
    return found;
  }
  return {.names = {},
          .frames = static_cast<double>(std::max(1, reference_frames.value_or(kUsualReferences))),
          .bytes = 3.84,
          .motion = .74};
}

}  // namespace

double bytes_of_pixel(uint32_t name) {
  std::array<uint32_t, 4> part = {name & 255, name >> 8 & 255, name >> 16 & 255, name >> 24};
  if (part[3] == 'Y' || part[3] == 'G') std::ranges::reverse(part);
  const auto is = [&](std::string_view text) {
    return std::ranges::equal(text, part, {}, [](char c) { return static_cast<uint32_t>(c); });
  };
  const double planes = static_cast<double>(part[1]) - '0', sample = part[3] > 8 ? 2 : 1;
  constexpr uint32_t kHalved = 11, kHalvedAcross = 10;
  if ((part[0] == 'Y' || part[0] == 'G') && planes >= 1 && planes <= 4 && part[2] < ' ' && part[3] <= 16)
    return sample * (planes - (part[2] == kHalved ? 1.5 : part[2] == kHalvedAcross ? 1 : 0));
  for (const char* text : {"I420", "IYUV", "YV12", "NV12", "NV21"}) {
    if (is(text)) return 1.5;
  }
  for (const char* text : {"Y42B", "P422", "YV16", "YUY2", "UYVY"}) {
    if (is(text)) return 2;
  }
  if (is("Y800")) return 1;
  if (is("444P")) return 3;
  constexpr double kUsual = 4;
  for (const uint32_t bits : {64U, 48U, 24U, 8U}) {
    if (part[0] == bits || part[3] == bits) return bits / 8.0;
  }
  return kUsual;
}

uint32_t usual_pixel_format(uint32_t codec) {
  constexpr uint32_t k422 = 'Y' | '3' << 8 | 10 << 16 | 10 << 24, k444 = 'Y' | '3' << 8 | 10 << 24,
                     kGbra = 'G' | '4' << 8 | 8 << 24, kRgb = 'R' | 'G' << 8 | 'B' << 16 | 24 << 24,
                     kRgba = 'R' | 'G' << 8 | 'B' << 16 | 32 << 24;
  struct Format {
    std::array<std::string_view, 6> names;
    uint32_t format;
  };
  constexpr std::array<Format, 7> kFormats = {{{{"apcn", "apch", "apcs", "apco", "v210", "CFHD"}, k422},
                                               {{"ap4h", "ap4x"}, k444},
                                               {{"AVdn", "AVdh", "ULY2", "ULH2", "M8Y2"}, fourcc("Y42B")},
                                               {{"ULRG", "M8RG", "ULY4", "ULH4", "M8Y4"}, fourcc("444P")},
                                               {{"ULRA", "M8RA"}, kGbra},
                                               {{"png ", "MPNG", "tiff", "raw ", "rle ", "MJLS"}, kRgb},
                                               {{"Hap1", "Hap5", "HapY", "HapA", "HapM"}, kRgba}}};
  for (const Format& known : kFormats) {
    if (std::ranges::count(known.names, codec, fourcc) > 0) return known.format;
  }
  return fourcc("I420");
}

double decoder_bytes_of_pixel(uint32_t codec, uint32_t pixel_format, std::optional<int> reference_frames,
                              unsigned threads) {
  constexpr unsigned kMostThreads = 16;
  const CodecMemory memory = memory_of(codec, reference_frames);
  const double frames = memory.frames + (memory.is_threaded ? std::clamp(threads, 1U, kMostThreads) : 0);
  return memory.bytes + (bytes_of_pixel(pixel_format) * memory.copies + memory.motion) * frames;
}

}  // namespace vggt
