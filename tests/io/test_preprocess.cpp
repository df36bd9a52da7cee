// Preprocessing equals the reference's loader (Pillow) bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>

#include "io/frames/image_files.h"
#include "io/frames/preprocess.h"
#include "io/frames/resize.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

const std::string kGolden = VGGT_FIXTURES "/golden/preprocess/";

// Planes [3,H,W] of a PNG, decoded by OpenCV alone.
std::vector<uint8_t> planes_of(const cv::Mat& bgr) {
  std::vector<uint8_t> planes;
  for (int c = 2; c >= 0; --c) {
    for (int y = 0; y < bgr.rows; ++y) {
      for (int x = 0; x < bgr.cols; ++x) planes.push_back(bgr.at<cv::Vec3b>(y, x)[c]);
    }
  }
  return planes;
}

struct Golden {
  const char* name;
  Fit fit;
};

class PreprocessGolden : public testing::TestWithParam<Golden> {};

TEST_P(PreprocessGolden, EqualsTheReferenceBitForBit) {
  const auto [name, fit] = GetParam();
  const cv::Mat expected = cv::imread(
      kGolden + "expected_" + name + (fit == Fit::crop ? "_crop.png" : "_pad.png"), cv::IMREAD_COLOR);
  ASSERT_FALSE(expected.empty());
  const FittedImage image = fit_image(ImageFile(kGolden + name + ".png").decode(), fit, 518, 14);
  ASSERT_EQ(image.width, expected.cols);
  ASSERT_EQ(image.height, expected.rows);
  EXPECT_EQ(image.rgb, planes_of(expected));
}

INSTANTIATE_TEST_SUITE_P(All, PreprocessGolden,
                         testing::Values(Golden{"gray", Fit::pad}, Golden{"landscape_rgb", Fit::crop},
                                         Golden{"portrait_rgb", Fit::crop}, Golden{"small_rgb", Fit::crop},
                                         Golden{"wide_rgba", Fit::crop}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Resize, ARangeOfRowsIsPartOfTheWhole) {
  const cv::Mat picture = test::noise_picture(50, 90, 4);
  const RowReader read = [&](int y, uint8_t* rgb) { std::copy_n(picture.ptr<uint8_t>(y), 150, rgb); };
  for (const int height : {30, 90, 200}) {
    const auto whole = resize_bicubic(50, 90, read, {33, height, 0, height});
    const auto part = resize_bicubic(50, 90, read, {33, height, 7, 11});
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 11 * 33; ++i) ASSERT_EQ(part[c * 11 * 33 + i], whole[(c * height + 7) * 33 + i]);
    }
  }
}

// Images of every mode, size and format that Pillow wrote, and the planes that Pillow makes of them.
class Pillow : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string own = VGGT_SOURCE_DIR "/.venv/bin/python";
    const std::string python = std::filesystem::exists(own) ? "'" + own + "'" : "python3";
    if (std::system((python + " -c 'import PIL' 2>/dev/null").c_str()) != 0) return;
    folder_ = std::make_unique<test::TemporaryFolder>();
    const std::string command = python +
                                " -W ignore '" VGGT_SOURCE_DIR "/tests/support/pillow_reference.py' '" +
                                folder_->path().string() + "' 7 '" VGGT_SOURCE_DIR "/examples/room/00.jpg'";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "no Python with Pillow";
  }

  struct Sample {
    std::string file, fit;
    int width, expected_height, expected_width;  // 0: a side rounds to 0
    std::vector<uint8_t> expected;
  };
  static std::vector<Sample> samples(bool jpeg) {
    std::vector<Sample> result;
    std::ifstream index(*folder_ / "index.txt");
    Sample s;
    while (index >> s.file >> s.fit >> s.width >> s.expected_height >> s.expected_width) {
      if (s.file.ends_with(".jpg") != jpeg) continue;
      s.expected = test::read_bytes(*folder_ / (s.file + ".rgb"));
      result.push_back(s);
    }
    return result;
  }
  static FittedImage load(const Sample& sample) {
    return fit_image(ImageFile(*folder_ / sample.file).decode(), sample.fit == "crop" ? Fit::crop : Fit::pad,
                     sample.width, 14);
  }

  static inline std::unique_ptr<test::TemporaryFolder> folder_;
};

TEST_F(Pillow, EqualBitForBit) {
  int compared = 0;
  for (const Sample& sample : samples(false)) {
    SCOPED_TRACE(sample.file);
    if (sample.expected_height == 0) {
      EXPECT_THROW(load(sample), std::invalid_argument);
      continue;
    }
    const FittedImage image = load(sample);
    ASSERT_EQ(image.width, sample.expected_width);
    ASSERT_EQ(image.height, sample.expected_height);
    EXPECT_TRUE(image.rgb == sample.expected);
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

TEST_F(Pillow, JpegWithinItsDecoders) {
  int compared = 0;
  for (const Sample& sample : samples(true)) {
    SCOPED_TRACE(sample.file);
    const FittedImage image = load(sample);
    ASSERT_EQ(image.rgb.size(), sample.expected.size());
    double sum = 0;
    int most = 0;
    for (std::size_t i = 0; i < image.rgb.size(); ++i) {
      const int difference = std::abs(image.rgb[i] - sample.expected[i]);
      sum += difference;
      most = std::max(most, difference);
    }
    EXPECT_LE(most, 3);
    EXPECT_LE(sum / static_cast<double>(image.rgb.size()), 0.1);
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

}  // namespace
}  // namespace vggt
