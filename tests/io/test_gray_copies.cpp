// Gray copies of the upright originals, kept for matching, and what EXIF tells of the camera.
#include <gtest/gtest.h>

#include <filesystem>
#include <opencv2/core.hpp>

#include "io/frames/image_header.h"
#include "io/frames/preprocess.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using namespace test;

std::filesystem::path folder_of(const char* name) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

FrameOptions options_of(const std::filesystem::path& folder, int side) {
  FrameOptions options;
  options.source = folder;
  options.width = 28;
  options.gray_side = side;
  return options;
}

TEST(GrayCopies, AreTheUprightOriginalsInGray) {
  const auto folder = folder_of("gray");
  // Stored lying, shown standing: 40 wide and 60 high, dark above and bright below.
  cv::Mat upright(60, 40, CV_8UC3);
  for (int y = 0; y < 60; ++y) upright.row(y).setTo(cv::Scalar::all(4 * y));
  write_bytes(folder / "a.jpg", with_exif(encoded(".jpg", stored_picture(upright, 6)), 6, true));
  FrameOptions options = options_of(folder, 1600);
  const FrameSet set = load_frames(options);
  const Frame& frame = set.frames.at(0);
  ASSERT_EQ(frame.gray_width, 40);
  ASSERT_EQ(frame.gray_height, 60);
  std::vector<uint8_t> gray(40 * 60);
  set.read_gray(0, gray);
  for (int y = 2; y < 58; ++y) EXPECT_NEAR(gray[static_cast<std::size_t>(y) * 40 + 20], 4 * y, 6) << y;
}

TEST(GrayCopies, HaveAtMostTheirSideAndTheirShareOfTheMemory) {
  const auto folder = folder_of("gray_small");
  for (const char* name : {"a.png", "b.png"})
    write_bytes(folder / name, encoded(".png", cv::Mat(90, 120, CV_8UC3, cv::Scalar(10, 200, 90))));
  FrameOptions options = options_of(folder, 60);
  FrameSet set = load_frames(options);
  EXPECT_EQ(set.frames[1].gray_width, 60);
  EXPECT_EQ(set.frames[1].gray_height, 45);
  std::vector<uint8_t> gray(60 * 45);
  set.read_gray(1, gray);
  EXPECT_NEAR(gray[77], 0.299 * 90 + 0.587 * 200 + 0.114 * 10, 1);
  options.gray_bytes = 2 * 400;
  set = load_frames(options);
  EXPECT_LE(set.frames[0].gray_width * set.frames[0].gray_height, 400);
  EXPECT_GE(set.frames[0].gray_width * set.frames[0].gray_height, 330);
  options.gray_side = 0;
  set = load_frames(options);
  EXPECT_FALSE(set.read_gray);
  EXPECT_EQ(set.frames[0].gray_width, 0);
}

/// A JPEG whose EXIF names a maker, and a focal length of so many tenths or what another tag is to name.
/// type: TIFF's, of eight bytes.
std::vector<uint8_t> jpeg_of_camera(uint8_t maker, uint8_t tenths, unsigned tag = 0x920A, uint8_t type = 5) {
  const auto low = static_cast<uint8_t>(tag & 0xFF), high = static_cast<uint8_t>(tag >> 8);
  const std::vector<uint8_t> block{
      'I',    'I',  42,   0, 8,  0, 0, 0, 2,     0,                        // two entries
      0x0F,   0x01, 2,    0, 4,  0, 0, 0, maker, 'b', 'c', 0,              // Make, in place
      0x69,   0x87, 4,    0, 1,  0, 0, 0, 38,    0,   0,   0,              // EXIF's own directory at 38
      0,      0,    0,    0, 1,  0,                                        // one entry
      low,    high, type, 0, 1,  0, 0, 0, 56,    0,   0,   0, 0, 0, 0, 0,  // FocalLength at 56
      tenths, 0,    0,    0, 10, 0, 0, 0};
  std::vector<uint8_t> jpeg = encoded(".jpg", cv::Mat(32, 32, CV_8UC3, cv::Scalar(1, 2, 3)));
  std::vector<uint8_t> segment{0xFF, 0xE1, 0, static_cast<uint8_t>(block.size() + 8), 'E', 'x', 'i',
                               'f',  0,    0};
  segment.insert(segment.end(), block.begin(), block.end());
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  return jpeg;
}

std::string camera_in(const std::vector<uint8_t>& jpeg) {
  return read_image_header(std::as_bytes(std::span(jpeg))).camera;
}

TEST(ExifCamera, TellsMakersAndFocalLengthsApart) {
  const std::string camera = camera_in(jpeg_of_camera('a', 50));
  EXPECT_FALSE(camera.empty());
  EXPECT_EQ(camera, camera_in(jpeg_of_camera('a', 50)));
  EXPECT_NE(camera, camera_in(jpeg_of_camera('a', 55)));
  EXPECT_NE(camera, camera_in(jpeg_of_camera('z', 50)));
  // Phones zoom by cropping: DigitalZoomRatio, FocalLengthIn35mmFilm.
  for (const unsigned tag : {0xA404U, 0xA405U})
    EXPECT_NE(camera_in(jpeg_of_camera('a', 10, tag)), camera_in(jpeg_of_camera('a', 20, tag)));
  constexpr uint8_t kDouble = 12;  // as Pillow writes a number of Python
  EXPECT_NE(camera_in(jpeg_of_camera('a', 10, 0x920A, kDouble)),
            camera_in(jpeg_of_camera('a', 20, 0x920A, kDouble)));
  EXPECT_EQ(camera_in(with_exif(encoded(".jpg", cv::Mat(32, 32, CV_8UC3, cv::Scalar(1, 2, 3))), 1, false)),
            "");
  const auto folder = folder_of("exif_camera");
  write_bytes(folder / "a.jpg", jpeg_of_camera('a', 50));
  EXPECT_EQ(load_frames(options_of(folder, 0)).frames.at(0).camera, camera);
}

TEST(ExifCamera, ADamagedBlockTellsNothing) {
  std::vector<uint8_t> jpeg = jpeg_of_camera('a', 50);
  jpeg[2 + 10 + 30] = 0xFF;  // the directory lies far outside
  jpeg[2 + 10 + 31] = 0xFF;
  EXPECT_EQ(camera_in(jpeg), "");
}

}  // namespace
}  // namespace vggt
