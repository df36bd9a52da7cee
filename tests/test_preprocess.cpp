// Preprocessing equals the reference's loader (Pillow) bit for bit.
#include <gtest/gtest.h>

#include <filesystem>
#include <opencv2/imgcodecs.hpp>
#include <string>

#include "io/frames.h"
#include "io/image_files.h"
#include "io/preprocess.h"

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
  const cv::Mat expected =
      cv::imread(kGolden + "expected_" + name + (fit == Fit::crop ? "_crop.png" : "_pad.png"), cv::IMREAD_COLOR);
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

}  // namespace
}  // namespace vggt
