#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/frames/image_writer.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

TEST(ImageWriter, PngReadsBack) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // [2,3,3]
  write_image(folder / "a.png", 3, 2, rgb);
  const cv::Mat bgr = cv::imread((folder / "a.png").string());
  ASSERT_EQ(bgr.size(), cv::Size(3, 2));
  for (int i = 0; i < 6; ++i)
    for (int c = 0; c < 3; ++c) EXPECT_EQ(bgr.at<cv::Vec3b>(i / 3, i % 3)[2 - c], rgb[3 * i + c]);
}

std::string error_of_writing(const std::filesystem::path& path, int width) {
  const std::vector<uint8_t> rgb(3 * static_cast<std::size_t>(width));
  try {
    write_image(path, width, 1, rgb);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ImageWriter, WhatTheFormatCannotHoldIsAnErrorAndLeavesNoFile) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(error_of_writing(folder / "fits.jpg", 65500), "");
  EXPECT_EQ(error_of_writing(folder / "wide.jpg", 65501),
            (folder / "wide.jpg").string() + ": an image of 65501x1 pixels cannot be written in this format");
  EXPECT_THAT(error_of_writing(folder / "a.txt", 4), testing::HasSubstr("a.txt: "));
  EXPECT_EQ(folder.file_count(), 1U);
}

}  // namespace
}  // namespace vggt
