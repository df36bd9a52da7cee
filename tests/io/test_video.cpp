// Frames out of a video: which are loaded, at what times.
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

#include "io/frames/frames.h"
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
