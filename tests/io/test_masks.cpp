// Masks of frames: found by the frames' names, brought to network pixels, and refused where they do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "io/frames/frames.h"
#include "io/frames/masks.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using test::load_error;
using testing::AllOf;
using testing::HasSubstr;

class Masks : public ::testing::Test {
 protected:
  Masks() {
    fs::create_directories(folder_ / "frames");
    fs::create_directories(folder_ / "masks");
  }
  FrameOptions options(int width = 56, Fit fit = Fit::crop) const {
    FrameOptions options;
    options.source = folder_ / "frames";
    options.masks = folder_ / "masks";
    options.width = width;
    options.fit = fit;
    return options;
  }
  void image(const std::string& name, const cv::Mat& picture) const {
    ASSERT_TRUE(cv::imwrite((folder_ / name).string(), picture));
  }
  static std::vector<uint8_t> mask_of(const FrameSet& set, std::size_t frame) {
    std::vector<uint8_t> used(static_cast<std::size_t>(set.width * set.height), 7);
    set.read_mask(frame, used);
    return used;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Masks, ANetworkPixelIsUsedWhereItShowsNoBlackOne) {
  std::mt19937 random(1);
  for (const Fit fit : {Fit::crop, Fit::pad, Fit::whole}) {
    for (const auto& [w, h] : {std::pair(150, 97), {40, 30}, {45, 160}, {56, 56}}) {
      image("frames/a.png", test::noise_picture(w, h, 3));
      cv::Mat mask(h, w, CV_8UC1, cv::Scalar(255));
      for (int i = 0; i < 5; ++i) {
        mask.at<uint8_t>(static_cast<int>(random() % 1000) % h, static_cast<int>(random() % 1000) % w) = 0;
      }
      image("masks/a.png", mask);
      const FrameSet set = load_frames(options(56, fit));
      const std::vector<uint8_t> used = mask_of(set, 0);
      const PixelMap& map = set.frames[0].map;
      for (int y = 0; y < set.height; ++y) {
        for (int x = 0; x < set.width; ++x) {
          // The original pixels whose squares the network pixel's square meets.
          bool all = true, any = false;
          for (int row = 0; row < h; ++row) {
            for (int column = 0; column < w; ++column) {
              const double left = map.network_x(column - 0.5), right = map.network_x(column + 0.5),
                           top = map.network_y(row - 0.5), bottom = map.network_y(row + 0.5);
              const double slack = 1e-4;
              if (right <= x - 0.5 + slack || left >= x + 0.5 - slack || bottom <= y - 0.5 + slack ||
                  top >= y + 0.5 - slack)
                continue;
              any = true;
              all = all && mask.at<uint8_t>(row, column) > 0;
            }
          }
          ASSERT_EQ(used[static_cast<std::size_t>(y * set.width + x)], any && all ? 1 : 0)
              << w << "x" << h << " at " << x << "," << y;
        }
      }
    }
  }
}

TEST_F(Masks, HaveTheFramesNameWithAnyExtensionOrOneMore) {
  fs::create_directories(folder_ / "masks/left");
  fs::create_directories(folder_ / "frames/left");
  fs::create_directories(folder_ / "frames/right");
  const std::vector<std::pair<std::string, std::string>> names = {
      {"frames/one.jpg", "masks/one.png"},
      {"frames/two.png", "masks/two.png.bmp"},
      {"frames/left/three.png", "masks/left/three.png"},
      {"frames/right/three.png", "masks/three.webp"},
  };
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    image(names[i].first, test::flat_picture(56, 56, 100));
    cv::Mat mask(56, 56, CV_8UC3, cv::Scalar::all(255));
    mask.row(static_cast<int>(i)).setTo(0);
    image(names[i].second, mask);
    list += names[i].first.substr(7) + "\n";
  }
  test::write_text(folder_ / "frames/list.txt", list);
  FrameOptions by_list = options();
  by_list.source = folder_ / "frames/list.txt";
  const FrameSet set = load_frames(by_list);
  ASSERT_EQ(set.frames.size(), names.size());
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    const std::vector<uint8_t> used = mask_of(set, i);
    for (std::size_t row = 0; row < names.size(); ++row)
      EXPECT_EQ(used[56 * row], row != i) << names[i].first;
  }
}

TEST_F(Masks, BlackIsAllButZeroAndColoursAreNot) {
  image("frames/a.png", test::flat_picture(56, 56, 100));
  cv::Mat mask(56, 56, CV_8UC3, cv::Scalar::all(0));
  mask.at<cv::Vec3b>(0, 0) = {0, 16, 0};
  mask.at<cv::Vec3b>(0, 1) = {5, 5, 5};
  image("masks/a.png", mask);
  const std::vector<uint8_t> used = mask_of(load_frames(options()), 0);
  EXPECT_EQ(used[0], 1);
  EXPECT_EQ(used[1], 0);
  EXPECT_EQ(used[2], 0);
}

TEST_F(Masks, WhatIsTransparentIsNotUsed) {
  image("frames/a.png", test::noise_picture(56, 56, 3));
  cv::Mat mask(56, 56, CV_8UC4, cv::Scalar(255, 255, 255, 255));
  mask.at<cv::Vec4b>(10, 20)[3] = 0;
  image("masks/a.png", mask);
  const std::vector<uint8_t> used = mask_of(load_frames(options()), 0);
  EXPECT_EQ(std::count(used.begin(), used.end(), 0), 1);
  EXPECT_EQ(used[10 * 56 + 20], 0);
}

TEST_F(Masks, OfListedFramesLieInFoldersOfAnyPartOfTheirPath) {
  fs::create_directories(folder_ / "frames/nest/a");
  fs::create_directories(folder_ / "masks/a");
  image("frames/nest/a/0.png", test::noise_picture(56, 56, 3));
  image("masks/a/0.png", cv::Mat(56, 56, CV_8UC1, cv::Scalar(255)));
  std::ofstream(folder_ / "frames/list.txt") << "nest/a/0.png\n";
  FrameOptions listed = options();
  listed.source = folder_ / "frames/list.txt";
  const std::vector<uint8_t> used = mask_of(load_frames(listed), 0);
  EXPECT_EQ(std::count(used.begin(), used.end(), 1), 56 * 56);
  std::ofstream(folder_ / "frames/list.txt") << "nest/a/0.png\na/0.png\n";
  fs::create_directories(folder_ / "frames/a");
  image("frames/a/0.png", test::noise_picture(56, 56, 3));
  EXPECT_THAT(load_error(listed), HasSubstr("a/0.png is the mask of two frames: nest/a/0.png and a/0.png"));
  std::ofstream(folder_ / "frames/list.txt") << "nest/a/0.png\nnest/a/0.png\n";
  EXPECT_EQ(load_frames(listed).frames.size(), 2U);
  fs::rename(folder_ / "masks/a", folder_ / "masks/b");
  EXPECT_THAT(load_error(listed), HasSubstr("holds no mask for the frame nest/a/0.png"));
}

TEST_F(Masks, AnEntirelyBlackOneLeavesNothing) {
  for (const char* name : {"a.png", "b.png"}) {
    image(std::string("frames/") + name, test::flat_picture(56, 56, 100));
    image(std::string("masks/") + name, cv::Mat(56, 56, CV_8UC1, cv::Scalar(0)));
  }
  EXPECT_THAT(load_error(options()), HasSubstr("all masks are black or transparent; white is used"));
  image("masks/b.png", test::flat_picture(56, 56, 255));
  EXPECT_EQ(mask_of(load_frames(options()), 0), std::vector<uint8_t>(56 * 56, 0));
}

TEST_F(Masks, WhatDoesNotFitIsRefused) {
  for (int i = 0; i < 5; ++i) {
    image("frames/" + std::to_string(i) + ".png", test::flat_picture(60, 40, 100));
    image("masks/" + std::to_string(i) + ".png", test::flat_picture(60, 40, 255));
  }
  EXPECT_EQ(load_error(options()), "");
  image("masks/3.png", test::flat_picture(60, 41, 255));
  EXPECT_THAT(load_error(options()),
              AllOf(HasSubstr("masks: "), HasSubstr("3.png: has 60x41 pixels"), HasSubstr("3.png 60x40")));
  image("masks/3.png", test::flat_picture(60, 40, 3));
  EXPECT_THAT(load_error(options()), HasSubstr("nearly black all over"));
  test::write_text(folder_ / "masks/3.png", "no image");
  EXPECT_THAT(load_error(options()), HasSubstr("masks/3.png"));
  fs::remove(folder_ / "masks/3.png");
  EXPECT_THAT(load_error(options()), HasSubstr("holds no mask for the frame 3.png"));
  FrameOptions fewer = options();
  fewer.max_frames = 2;  // 0 and 4
  EXPECT_EQ(load_error(fewer), "");
  image("masks/3.png", test::flat_picture(60, 40, 255));
  image("masks/3.bmp", test::flat_picture(60, 40, 255));
  EXPECT_THAT(load_error(options()), HasSubstr("two masks for the frame 3.png"));
  fs::rename(folder_ / "masks/3.bmp", folder_ / "masks/3.png.bmp");
  EXPECT_THAT(load_error(options()), HasSubstr("two masks for the frame 3.png"));
  FrameOptions nowhere = options();
  nowhere.masks = folder_ / "nowhere";
  EXPECT_THAT(load_error(nowhere), HasSubstr("nowhere is no folder"));
  nowhere.masks = folder_ / "masks/../frames";
  EXPECT_THAT(load_error(nowhere), HasSubstr("is the frames' own folder"));
}

TEST_F(Masks, HeadersTellWhatTheLargestTakes) {
  const auto bytes = [&] {
    FrameOptions sizes = options();
    sizes.pixels = false;
    sizes.masks.clear();
    return most_mask_bytes(options(), load_frames(sizes));
  };
  for (const char* name : {"masks/1.png", "masks/2.png", "frames/1.png", "frames/2.png"})
    image(name, test::flat_picture(60, 40, 255));
  const std::size_t all = bytes();
  EXPECT_GE(all, 4U * 60 * 40);
  image("masks/2.png", cv::Mat(40, 60, CV_16UC4, cv::Scalar::all(65535)));
  EXPECT_GE(bytes(), all + 5 * 60 * 40);
  // What load_masks() refuses counts nothing.
  image("masks/2.png", cv::Mat(400, 600, CV_16UC4, cv::Scalar::all(65535)));
  EXPECT_EQ(bytes(), all);
  fs::remove(folder_ / "masks/2.png");
  EXPECT_EQ(bytes(), all);
}

TEST_F(Masks, OfATurnedPhotographAreUpright) {
  test::write_bytes(folder_ / "frames/a.jpg",
                    test::with_exif(test::encoded(".jpg", test::flat_picture(80, 60, 90)), 6, true));
  image("masks/a.png", test::flat_picture(80, 60, 255));  // as stored
  EXPECT_THAT(load_error(options()), HasSubstr("upright frame a.jpg 60x80"));
  cv::Mat mask(80, 60, CV_8UC1, cv::Scalar(255));
  mask.rowRange(0, 40).setTo(0);
  image("masks/a.png", mask);
  const FrameSet set = load_frames(options());
  const std::vector<uint8_t> used = mask_of(set, 0);
  EXPECT_EQ(used.front(), 0);
  EXPECT_EQ(used.back(), 1);
}

}  // namespace
}  // namespace vggt
