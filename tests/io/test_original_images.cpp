// Frames at their own size, read once more: upright from files, by number from videos.
#include <gtest/gtest.h>

#include <opencv2/videoio.hpp>

#include "io/frames/image_writer.h"
#include "io/frames/original_images.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

FrameSet load(const std::filesystem::path& source, std::optional<int> max_frames = {}) {
  FrameOptions options;
  options.source = source;
  options.width = 56;
  options.max_frames = max_frames;
  return load_frames(options);
}

uint8_t green(const RgbImage& image, int x, int y) {
  return image.rgb[3 * static_cast<std::size_t>(y * image.width + x) + 1];
}

TEST(OriginalImages, FilesAreUpright) {
  const test::TemporaryFolder folder;
  const cv::Mat upright = test::position_picture(90, 120);
  for (const int orientation : {1, 6, 8}) {
    const auto jpeg = test::encoded(".jpg", test::stored_picture(upright, orientation));
    test::write_bytes(folder / ("o" + std::to_string(orientation) + ".jpg"),
                      test::with_exif(jpeg, orientation, false));
  }
  test::write_text(folder / "list.txt", "o6.jpg\no8.jpg\no1.jpg\n");
  const FrameSet frames = load(folder / "list.txt");
  const OriginalImages images(folder / "list.txt", frames);
  EXPECT_TRUE(images.are_files());
  for (const auto& [frame, orientation] : {std::pair(0U, 6), {1U, 8}, {2U, 1}}) {
    EXPECT_EQ(images.file(frame), folder / ("o" + std::to_string(orientation) + ".jpg"));
    EXPECT_EQ(images.header(frame).orientation, orientation);
    const RgbImage image = images.read_file(frame);
    EXPECT_EQ(image.width, 90);
    EXPECT_EQ(image.height, 120);
    EXPECT_NEAR(green(image, 5, 0), 0, 6);
    EXPECT_NEAR(green(image, 5, 119), 255, 6);
    EXPECT_NEAR(image.rgb[3 * 89], 255, 6);  // red, at the upper right
  }
}

TEST(OriginalImages, ChosenFramesOfAVideo) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "v.avi";
  {
    cv::VideoWriter writer(path.string(), cv::CAP_FFMPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 10,
                           {160, 96});
    ASSERT_TRUE(writer.isOpened());
    for (int i = 0; i < 50; ++i) writer.write(test::flat_picture(160, 96, 5 * i));
  }
  const FrameSet frames = load(path, 3);
  const OriginalImages images(path, frames);
  EXPECT_FALSE(images.are_files());
  EXPECT_TRUE(images.are_video());
  std::vector<int> shown;
  images.read_all([&](std::size_t frame, const RgbImage& image) {
    EXPECT_EQ(frame, shown.size());
    EXPECT_EQ(image.width, 160);
    shown.push_back(green(image, 80, 48));
  });
  ASSERT_EQ(shown.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(shown[i], 5 * static_cast<int>(images.number(i)), 4) << i;
  EXPECT_GT(images.number(1), images.number(0));
}

}  // namespace
}  // namespace vggt
