// Frames out of a video: which are loaded, at what times, from which containers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <opencv2/videoio.hpp>
#include <random>
#include <string_view>
#include <thread>

#include "io/frames/fourcc.h"
#include "io/frames/frames.h"
#include "io/frames/parameter_sets.h"
#include "io/frames/video_container.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using test::load_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kWidth = 160, kHeight = 96, kBits = 8;

// Frame i shows the number i in binary, as black and white bars that survive every codec.
cv::Mat numbered_picture(int number) {
  cv::Mat picture = test::flat_picture(kWidth, kHeight, 0);
  for (int bit = 0; bit < kBits; ++bit) {
    const int begin = bit * kWidth / kBits;
    if (number >> bit & 1) picture.colRange(begin, begin + kWidth / kBits).setTo(cv::Scalar::all(255));
  }
  return picture;
}

void write_video(const std::filesystem::path& path, const std::string& codec, double rate, int count) {
  cv::VideoWriter writer(path.string(), cv::CAP_FFMPEG,
                         cv::VideoWriter::fourcc(codec[0], codec[1], codec[2], codec[3]), rate,
                         {kWidth, kHeight});
  ASSERT_TRUE(writer.isOpened()) << path;
  for (int i = 0; i < count; ++i) writer.write(numbered_picture(i));
}

FrameOptions small_options(const std::filesystem::path& source) {
  FrameOptions options;
  options.source = source;
  options.width = 56;
  return options;
}

// The numbers that the pixels of the frames show.
std::vector<int> numbers_by_pixels(const FrameSet& set) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    int& number = numbers.emplace_back(0);
    const std::vector<uint8_t> rgb = set.rgb(i);
    const uint8_t* row = rgb.data() + set.height / 2 * set.width;
    for (int bit = 0; bit < kBits; ++bit)
      number |= (row[(2 * bit + 1) * set.width / (2 * kBits)] > 127) << bit;
  }
  return numbers;
}

std::vector<int> numbers_by_name(const FrameSet& set) {
  std::vector<int> numbers;
  for (const Frame& frame : set.frames)
    numbers.push_back(std::stoi(frame.file.substr(frame.file.find('#') + 1)));
  return numbers;
}

void expect_frames(const FrameSet& set, const std::vector<int>& expected, double rate) {
  EXPECT_EQ(numbers_by_name(set), expected);
  EXPECT_EQ(numbers_by_pixels(set), expected);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    EXPECT_NEAR(set.frames[i].time_s, expected[i] / rate, 1e-3);
    EXPECT_EQ(set.frames[i].original_width, kWidth);
    EXPECT_EQ(set.frames[i].original_height, kHeight);
  }
}

struct Container {
  const char* name;
  const char* codec;
};

class Video : public testing::TestWithParam<Container> {};

TEST_P(Video, SampledByTimeOrByCount) {
  const auto [name, codec] = GetParam();
  const test::TemporaryFolder folder;
  const auto path = folder / name;
  write_video(path, codec, 24, 80);
  test::StderrCapture capture;
  FrameOptions options = small_options(path);
  expect_frames(load_frames(options), {0, 24, 48, 72}, 24);
  options.fps = 2.5;  // at 0, 0.4, 0.8, ... the first frame that is not before
  expect_frames(load_frames(options), {0, 10, 20, 29, 39, 48, 58, 68, 77}, 24);
  options.fps = 0.01;
  expect_frames(load_frames(options), {0}, 24);
  options.fps = 1000;
  EXPECT_THAT(load_frames(options).frames, SizeIs(80));
  options.fps.reset();
  options.stride = 30;
  expect_frames(load_frames(options), {0, 30, 60}, 24);
  options.stride = 10;
  options.max_frames = 3;
  expect_frames(load_frames(options), {0, 40, 70}, 24);
  options.max_frames = 1;
  expect_frames(load_frames(options), {0}, 24);
  options.max_frames = 100;
  options.threads = 5;
  options.memory_budget_bytes = 1;
  expect_frames(load_frames(options), {0, 10, 20, 30, 40, 50, 60, 70}, 24);
  EXPECT_EQ(capture.text(), "");
}

INSTANTIATE_TEST_SUITE_P(Containers, Video,
                         testing::Values(Container{"a b.avi", "MJPG"}, Container{"a.mp4", "mp4v"},
                                         Container{"a.mov", "mp4v"}, Container{"a.mkv", "mp4v"}),
                         [](const auto& info) {
                           return std::string(std::strrchr(info.param.name, '.') + 1);
                         });

TEST(VideoFile, FrameNamesAndProgress) {
  const test::TemporaryFolder folder;
  write_video(folder / "clip.avi", "MJPG", 10, 35);
  int last = 0;
  const FrameSet set = load_frames(small_options(folder / "clip.avi"), [&](int done, int total) {
    EXPECT_EQ(total, 0);
    last = done;
  });
  EXPECT_EQ(last, 4);
  EXPECT_THAT(test::files_of(set), ElementsAre("clip.avi#0", "clip.avi#10", "clip.avi#20", "clip.avi#30"));
  struct Stop {};
  EXPECT_THROW(load_frames(small_options(folder / "clip.avi"), [](int, int) { throw Stop(); }), Stop);
}

TEST(VideoFile, TwoLoadsAtOnceAreRight) {
  const test::TemporaryFolder folder;
  write_video(folder / "a.mp4", "mp4v", 10, 40);
  write_video(folder / "b.avi", "MJPG", 10, 50);
  FrameOptions options[2] = {small_options(folder / "a.mp4"), small_options(folder / "b.avi")};
  for (FrameOptions& o : options) o.stride = 5;
  FrameSet sets[2];
  {
    std::vector<std::jthread> runs;
    for (int i = 0; i < 2; ++i) runs.emplace_back([&, i] { sets[i] = load_frames(options[i]); });
  }
  expect_frames(sets[0], {0, 5, 10, 15, 20, 25, 30, 35}, 10);
  expect_frames(sets[1], {0, 5, 10, 15, 20, 25, 30, 35, 40, 45}, 10);
}

// Turns a video by the matrix of its track header, as phones do.
void turn_quarter(const std::filesystem::path& path) {
  std::vector<uint8_t> bytes = test::read_bytes(path);
  const std::string name = "tkhd";
  const auto found = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  ASSERT_NE(found, bytes.end());
  constexpr std::ptrdiff_t kMatrix =
      4 + 4 + 36;  // behind the name, version and flags, and the fields of version 0
  const std::vector<uint8_t> quarter{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0,    0, 0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0x40, 0, 0, 0};
  std::copy(quarter.begin(), quarter.end(), found + kMatrix);
  test::write_bytes(path, bytes);
}

TEST(VideoFile, TurnedAsItsTrackSays) {
  const test::TemporaryFolder folder;
  const auto path = folder / "turned.mp4";
  {
    cv::VideoWriter writer(path.string(), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('m', 'p', '4', 'v'), 5,
                           {160, 96});
    for (int i = 0; i < 3; ++i) writer.write(test::position_picture(160, 96));
  }
  turn_quarter(path);
  test::expect_sized(small_options(path));
  const FrameSet set = load_frames(small_options(path));
  const Frame& frame = set.frames.at(0);
  EXPECT_EQ(frame.original_width, 96);
  EXPECT_EQ(frame.original_height, 160);
  // A quarter turn clockwise: red, which grew to the right, grows downwards; green, which grew downwards,
  // grows to the left.
  const std::vector<uint8_t> rgb = set.rgb(0);
  const auto mean = [&](int c, int x, int y) { return int{rgb[(c * set.height + y) * set.width + x]}; };
  EXPECT_GT(mean(0, 28, set.height - 4), mean(0, 28, 4) + 60);
  EXPECT_GT(mean(1, 4, set.height / 2), mean(1, 51, set.height / 2) + 60);
}

const std::filesystem::path kVideos = VGGT_FIXTURES "/videos";

TEST(VideoFile, OfAVariableRateIsSampledByItsTimes) {
  FrameOptions options = small_options(kVideos / "variable.mp4");
  const auto time_of = [](int number) { return number < 20 ? number / 10. : 2 + (number - 20) / 2.; };
  const auto expect_times = [&](const std::vector<int>& expected) {
    const FrameSet set = load_frames(options);
    std::vector<int> seen = expected;
    while (seen.back() > 27) seen.pop_back();  // OpenCV 4.6 loses what the decoder holds at the end
    const std::vector<int> numbers = numbers_by_name(set);
    EXPECT_TRUE(numbers == expected || numbers == seen) << testing::PrintToString(numbers);
    EXPECT_EQ(numbers_by_pixels(set), numbers);
    for (std::size_t i = 0; i < set.frames.size(); ++i)
      EXPECT_NEAR(set.frames[i].time_s, time_of(expected[i]), 2e-3) << expected[i];
  };
  options.fps = 2;
  expect_times({0, 5, 10, 15, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
  options.fps = 1;
  expect_times({0, 10, 20, 22, 24, 26, 28});
}

// One frame a second, then 25, with frames that are stored after later ones.
TEST(VideoFile, OfAVariableRateAndReorderedFramesKeepsTheTimesToItsEnd) {
  FrameOptions options = small_options(kVideos / "reordered.mp4");
  options.stride = 1;
  const FrameSet set = load_frames(options);
  ASSERT_GE(set.frames.size(), 9U);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    const auto number = static_cast<double>(i);
    EXPECT_NEAR(set.frames[i].time_s, i < 3 ? number : 2 + (number - 2) / 25, 2e-3) << i;
  }
}

TEST(VideoFile, OfHevcAsTelephonesWriteIt) {
  test::StderrCapture capture;
  for (const char* name : {"hevc.mp4", "hevc10.mov"}) {
    FrameOptions options = small_options(kVideos / name);
    options.fps = 2;
    expect_frames(load_frames(options), {0, 5, 10, 15, 20, 25}, 10);
  }
  EXPECT_EQ(capture.text(), "");
}

class TurnedVideo : public testing::TestWithParam<int> {};

TEST_P(TurnedVideo, IsShownUpright) {
  const int degrees = GetParam();  // clockwise, from stored to upright
  const FrameOptions options = small_options(kVideos / ("turned" + std::to_string(degrees) + ".mp4"));
  test::expect_sized(options);
  const FrameSet set = load_frames(options);
  const Frame& frame = set.frames.at(0);
  EXPECT_EQ(frame.original_width, degrees == 180 ? 160 : 96);
  EXPECT_EQ(frame.original_height, degrees == 180 ? 96 : 160);
  const std::vector<uint8_t> rgb = set.rgb(0);
  const int right = set.width - 5, bottom = set.height - 5;
  const auto value = [&](int c, int x, int y) { return int{rgb[(c * set.height + y) * set.width + x]}; };
  // What the stored picture has at its right (red) and its bottom (green) is now at these sides.
  const auto across = [&](int c) { return value(c, right, set.height / 2) - value(c, 5, set.height / 2); };
  const auto down = [&](int c) { return value(c, set.width / 2, bottom) - value(c, set.width / 2, 5); };
  if (degrees == 90) {
    EXPECT_GT(down(0), 60);
    EXPECT_LT(across(1), -60);
  } else if (degrees == 180) {
    EXPECT_LT(across(0), -60);
    EXPECT_LT(down(1), -60);
  } else {
    EXPECT_LT(down(0), -60);
    EXPECT_GT(across(1), 60);
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, TurnedVideo, testing::Values(90, 180, 270));

/// A copy of an MP4 whose track has this display matrix.
void write_with_matrix(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::array<int, 4>& matrix) {
  std::vector<uint8_t> bytes = test::read_bytes(from);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t header = text.find("tkhd");
  ASSERT_NE(header, text.npos);
  ASSERT_EQ(bytes[header + 4], 0);  // its version
  constexpr std::array<std::size_t, 4> kPlaces{0, 1, 3, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = static_cast<uint32_t>(matrix[i] * (1 << 16));
    for (std::size_t byte = 0; byte < 4; ++byte)
      bytes[header + 44 + 4 * kPlaces[i] + byte] = static_cast<uint8_t>(value >> (24 - 8 * byte));
  }
  test::write_bytes(to, bytes);
}

TEST(VideoFile, MirroredAsItsTrackSays) {
  const test::TemporaryFolder folder;
  // The stored picture is red at its right and green at its bottom; x and y of the matrix say where these go.
  for (const auto& [a, b, c, d] : std::vector<std::array<int, 4>>{
           {-1, 0, 0, 1}, {1, 0, 0, -1}, {0, 1, 1, 0}, {0, -1, -1, 0}, {1, 0, 0, 1}}) {
    SCOPED_TRACE(testing::Message() << a << " " << b << " " << c << " " << d);
    write_with_matrix(kVideos / "turned180.mp4", folder / "a.mp4", {a, b, c, d});
    const FrameOptions options = small_options(folder / "a.mp4");
    test::expect_sized(options);
    const FrameSet set = load_frames(options);
    EXPECT_EQ(set.frames.at(0).original_width, a == 0 ? 96 : 160);
    const std::vector<uint8_t> rgb = set.rgb(0);
    const auto value = [&](int colour, int x, int y) {
      return int{rgb[static_cast<std::size_t>((colour * set.height + y) * set.width + x)]};
    };
    const auto across = [&](int colour) {
      return value(colour, set.width - 5, set.height / 2) - value(colour, 5, set.height / 2);
    };
    const auto down = [&](int colour) {
      return value(colour, set.width / 2, set.height - 5) - value(colour, set.width / 2, 5);
    };
    EXPECT_GT(a != 0 ? a * across(0) : b * down(0), 60);
    EXPECT_GT(d != 0 ? d * down(1) : c * across(1), 60);
  }
}

TEST(VideoFile, AMatrixOfZerosTurnsNothing) {
  const test::TemporaryFolder folder;
  write_with_matrix(kVideos / "turned90.mp4", folder / "a.mp4", {0, 0, 0, 0});
  EXPECT_EQ(load_frames(small_options(folder / "a.mp4")).frames.at(0).original_width, 160);
}

/// A Matroska element with a size of eight bytes.
std::string element(const std::string& id, const std::string& content, uint64_t more = 0) {
  std::string text = id + '\x01';
  for (int byte = 6; byte >= 0; --byte)
    text += static_cast<char>((content.size() + more) >> (8 * byte) & 0xff);
  return text + content;
}

TEST(VideoContainer, KnowsFilesThatWereCutOff) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> whole = test::read_bytes(kVideos / "turned180.mp4");
  EXPECT_FALSE(read_video_container(kVideos / "turned180.mp4").is_cut_off);
  EXPECT_TRUE(read_video_container(kVideos / "turned180.mp4").seconds.has_value());
  std::vector<uint8_t> cut = whole;
  cut.resize(cut.size() - 10);
  test::write_bytes(folder / "cut.mp4", cut);
  EXPECT_TRUE(read_video_container(folder / "cut.mp4").is_cut_off);

  const std::string head = element("\x1a\x45\xdf\xa3", "webm"), id = "\x18\x53\x80\x67";
  test::write_text(folder / "a.mkv", head + element(id, "pictures"));
  const VideoContainer matroska = read_video_container(folder / "a.mkv");
  EXPECT_FALSE(matroska.is_cut_off);
  EXPECT_FALSE(matroska.counts_from_first);  // its first picture may be late
  test::write_text(folder / "b.mkv", head + element(id, "pictures", 1));
  EXPECT_TRUE(read_video_container(folder / "b.mkv").is_cut_off);
  test::write_text(folder / "live.mkv", head + id + "\xff pictures");
  EXPECT_FALSE(read_video_container(folder / "live.mkv").is_cut_off);
}

TEST(VideoContainer, APipeIsLeftAlone) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "a.mp4").c_str(), 0600), 0);
  EXPECT_FALSE(read_video_container(folder / "a.mp4").matrix.has_value());  // and does not wait
  EXPECT_FALSE(read_video_container(folder / "missing.mp4").is_cut_off);
}

TEST(VideoContainer, AnyBytesAreRead) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> whole = test::read_bytes(kVideos / "turned180.mp4");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 20; ++change)
      bytes[random() % (i % 2 == 0 ? bytes.size() : 1000)] =
          static_cast<uint8_t>(i % 3 == 0 ? 0xff : random());
    test::write_bytes(folder / "a.mp4", bytes);
    read_video_container(folder / "a.mp4");
  }
  for (const std::size_t size : {0, 3, 4, 7, 8, 12}) {
    test::write_bytes(folder / "a.mp4", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(read_video_container(folder / "a.mp4").matrix.has_value());
    test::write_text(folder / "a.mkv",
                     std::string("\x1a\x45\xdf\xa3\x01\xff\xff\xff\xff\xff\xff\xff").substr(0, size));
    EXPECT_FALSE(read_video_container(folder / "a.mkv").is_cut_off);
  }
}

TEST(VideoContainer, TooManyBoxesAreLeft) {
  const test::TemporaryFolder folder;
  const std::string many = element("\xae", std::string(8000, '\x81')),  // elements of one byte
      last = element("\xae", element("\x83", "\1") + element("\x86", "V_VP9"));
  const auto codec = [&](int tracks) {
    std::string all;
    for (int i = 0; i < tracks; ++i) all += many;
    const std::string content = element("\x16\x54\xae\x6b", all + last);
    test::write_text(folder / "a.mkv",
                     element("\x1a\x45\xdf\xa3", "webm") + element("\x18\x53\x80\x67", content));
    return read_video_container(folder / "a.mkv").codec;
  };
  EXPECT_EQ(codec(3), fourcc("VP90"));
  EXPECT_EQ(codec(4000), 0U);
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Of x264: Constrained Baseline, High, High 4:2:2 in 10 bits, High 4:4:4, and High with scaling lists.
TEST(VideoFile, ReferenceFramesOfH264) {
  const std::map<std::string, int> sets = {
      {"6742c00bda0507ec0440000003004000000503c50aa8", 1},
      {"67640015ac5624141fb011000003000100000300140f162d8980", 8},
      {"677a0016b6c72044141fb011000003000100000300140f162d8460", 16},
      {"67f4000c919b30283f6022000003000200000300281e285334", 5},
      {"6764000cacd9c141fb011000000300100000030140f14299e0", 6},
  };
  for (const auto& [digits, frames] : sets) {
    const std::string set = from_hex(digits);
    EXPECT_EQ(h264_reference_frames(set), frames) << digits;
    for (std::size_t size = 0; size < 5; ++size)
      EXPECT_EQ(h264_reference_frames(set.substr(0, size)), std::nullopt) << digits;
    EXPECT_EQ(h264_reference_frames("\x68" + set.substr(1)), std::nullopt);
  }
  EXPECT_EQ(h264_reference_frames(from_hex("6742c00b") + std::string(4096, '\0')), std::nullopt);
  EXPECT_EQ(read_video_container(kVideos / "reordered.mp4").reference_frames, 4);
}

// Of x265: 8 bits, 10 bits.
TEST(VideoFile, KeptFramesOfHevc) {
  for (const auto& [digits, frames] :
       std::map<std::string, int>{{"40010c01ffff01600000030090000003000003001e959809", 4},
                                  {"40010c01ffff0220000003009000000300000300b4999809", 5}}) {
    const std::string set = from_hex(digits);
    EXPECT_EQ(hevc_kept_frames(set), frames) << digits;
    for (std::size_t size = 0; size < 19; ++size)
      EXPECT_EQ(hevc_kept_frames(set.substr(0, size)), std::nullopt);
    EXPECT_EQ(hevc_kept_frames("\x42" + set.substr(1)), std::nullopt);
  }
  EXPECT_EQ(hevc_kept_frames(from_hex("40010c0f") + std::string(64, '\xff')), std::nullopt);
  EXPECT_EQ(read_video_container(kVideos / "hevc.mp4").reference_frames, 4);
}

TEST(VideoContainer, FindsParameterSetsInAStream) {
  const test::TemporaryFolder folder;
  const std::string start("\0\0\1", 3),
      few = from_hex("6742c00bda0507ec0440000003004000000503c50aa8"),
      many = from_hex("67640015ac5624141fb011000003000100000300140f162d8980");
  test::write_text(folder / "a.ts",
                   "G" + std::string(20, 'x') + start + few + start + "\x65picture" + start + many);
  EXPECT_EQ(read_video_container(folder / "a.ts").reference_frames, 8);
  const std::string record = from_hex("0164001effe1") + '\0' + static_cast<char>(many.size()) + many;
  test::write_text(folder / "a.avi", "RIFF" + std::string(80, 'x') + "strf" + record + std::string(80, 'x'));
  EXPECT_EQ(read_video_container(folder / "a.avi").reference_frames, 8);
  test::write_text(folder / "b.ts", "G" + start + "\x65picture" + start);
  EXPECT_EQ(read_video_container(folder / "b.ts").reference_frames, std::nullopt);
}

TEST(VideoContainer, TellsTheCodecOfMatroska) {
  const test::TemporaryFolder folder;
  const std::string set = from_hex("67640015ac5624141fb011000003000100000300140f162d8980");
  const std::string record = from_hex("0164001effe1") + '\0' + static_cast<char>(set.size()) + set;
  const auto track = [](const std::string& type, const std::string& codec, const std::string& more = "") {
    return element("\xae", element("\x83", type) + element("\x86", codec) + more);
  };
  const std::string head = element("\x1a\x45\xdf\xa3", "webm"), sound = track("\2", "A_OPUS"),
                    configuration = element("\x63\xa2", record);
  const auto read = [&](const std::string& tracks, bool is_live = false) {
    const std::string content = element("\xec", "nothing") + element("\x16\x54\xae\x6b", tracks),
                      segment = "\x18\x53\x80\x67";
    test::write_text(folder / "a.mkv",
                     head + (is_live ? segment + '\xff' + content : element(segment, content)));
    return read_video_container(folder / "a.mkv");
  };
  EXPECT_EQ(read(sound + track("\1", "V_VP9") + track("\1", "V_VP8")).codec, fourcc("VP90"));
  EXPECT_EQ(read(track("\1", "V_AV1"), true).codec, fourcc("av01"));
  EXPECT_EQ(read(track("\1", "V_THEORA")).codec, 0U);
  EXPECT_EQ(read(sound).codec, 0U);
  EXPECT_EQ(read(track("\1", "V_MPEG4/ISO/AVC", configuration)).reference_frames, 8);
  EXPECT_EQ(read(track("\1", "V_MPEG4/ISO/AVC")).reference_frames, std::nullopt);
  EXPECT_EQ(read(track("\1", std::string("V_VP9\0\0", 7))).codec, fourcc("VP90"));

  read(sound + track("\1", "V_MPEG4/ISO/AVC", configuration));
  const std::vector<uint8_t> whole = test::read_bytes(folder / "a.mkv");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {  // any bytes are read
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 10; ++change)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(i % 3 == 0 ? 0xff : random());
    test::write_bytes(folder / "b.mkv", bytes);
    read_video_container(folder / "b.mkv");
  }
}

TEST(VideoContainer, TellsMpeg2FromMpeg4) {
  const test::TemporaryFolder folder;
  const auto box = [](const std::string& type, const std::string& content) {
    return from_hex("0000") + static_cast<char>((content.size() + 8) >> 8) +
           static_cast<char>((content.size() + 8) & 0xff) + type + content;
  };
  const auto codec = [&](const std::string& descriptor) {
    const std::string padding(16, '\0'),
        entry = box("mp4v", std::string(78, '\0') + box("esds", descriptor + padding));
    const std::string handler = box("hdlr", std::string(8, '\0') + "vide"),
                      table = box("stbl", box("stsd", std::string(8, '\0') + entry)),
                      media = box("mdia", handler + box("minf", table));
    test::write_text(folder / "a.mp4", box("moov", box("trak", box("tkhd", std::string(100, '\0')) + media)));
    return read_video_container(folder / "a.mp4").codec;
  };
  // Version and flags; an ES_Descriptor (3), its size, id and flags; a DecoderConfigDescriptor (4), its size,
  // and the type of object.
  EXPECT_EQ(codec(from_hex("00000000"
                           "031a"
                           "000100"
                           "0412"
                           "61")),
            fourcc("mpg2"));
  EXPECT_EQ(codec(from_hex("00000000"
                           "038080801a"
                           "000100"
                           "0480808012"
                           "6a")),
            fourcc("mpg1"));
  EXPECT_EQ(codec(from_hex("00000000"
                           "0319"
                           "000100"
                           "0411"
                           "6e")),
            fourcc("mjp2"));
  EXPECT_EQ(codec(from_hex("00000000"
                           "038080801a"
                           "000100"
                           "0480808012"
                           "20")),
            0U);
  EXPECT_EQ(codec(from_hex("00000000"
                           "03808080808080808080808080808080")),
            0U);
}

TEST(VideoContainer, TakesAProgramStreamForMpeg2) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.mpg", from_hex("000001ba") + "pictures");
  EXPECT_EQ(read_video_container(folder / "a.mpg").codec, fourcc("mpg2"));
}

// FFmpeg would open what a playlist names.
TEST(VideoFile, APlaylistIsNoVideo) {
  const test::TemporaryFolder folder;
  write_video(folder / "secret.avi", "MJPG", 10, 5);
  const std::string secret = (folder / "secret.avi").string();
  test::write_text(folder / "hls.mp4", "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n" +
                                           secret + "\n#EXT-X-ENDLIST\n");
  test::write_text(folder / "concat.mp4", "ffconcat version 1.0\nfile " + secret + "\n");
  test::write_text(folder / "nul.mp4",
                   "#EXTM3U\n#" + std::string(1, '\0') + "\n#EXTINF:10,\n" + secret + "\n#EXT-X-ENDLIST\n");
  for (const char* name : {"hls.mp4", "concat.mp4", "nul.mp4"})
    EXPECT_THAT(load_error(small_options(folder / name)), HasSubstr("cannot be opened as a video")) << name;
}

TEST(VideoFile, CutOffOrNotAVideo) {
  const test::TemporaryFolder folder;
  write_video(folder / "a.avi", "MJPG", 10, 60);
  std::vector<uint8_t> bytes = test::read_bytes(folder / "a.avi");
  bytes.resize(bytes.size() / 2);
  test::write_bytes(folder / "half.avi", bytes);
  test::write_text(folder / "text.mp4", "hello");
  test::write_bytes(folder / "empty.mp4", {});
  test::StderrCapture capture;
  // The header still promises 60 frames.
  FrameOptions options = small_options(folder / "half.avi");
  options.max_frames = 3;
  options.stride = 1;
  const FrameSet set = load_frames(options);
  ASSERT_THAT(set.frames, SizeIs(3));
  const int last = numbers_by_name(set).back();
  EXPECT_GT(last, 10);
  EXPECT_LT(last, 40);
  EXPECT_EQ(numbers_by_pixels(set), numbers_by_name(set));
  EXPECT_THAT(set.warnings, ElementsAre(HasSubstr("half.avi: ends after")));
  EXPECT_THAT(load_frames(small_options(folder / "half.avi")).warnings, SizeIs(1));
  EXPECT_THAT(load_frames(small_options(folder / "a.avi")).warnings, SizeIs(0));
  EXPECT_THAT(load_error(small_options(folder / "text.mp4")),
              HasSubstr("text.mp4: cannot be opened as a video"));
  EXPECT_THAT(load_error(small_options(folder / "empty.mp4")),
              HasSubstr("empty.mp4: cannot be opened as a video"));
  bytes.resize(600);
  test::write_bytes(folder / "header.avi", bytes);
  EXPECT_THAT(load_error(small_options(folder / "header.avi")), HasSubstr("header.avi: "));
  EXPECT_EQ(capture.text(), "");
}

}  // namespace
}  // namespace vggt
