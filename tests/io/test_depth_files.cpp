// Depth maps from 16-bit PNG, .npy and .pfm, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/scene/depth_files.h"
#include "tests/support/media.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using test::bytes_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(DepthFiles, PngInItsUnit) {
  const test::TemporaryFolder folder;
  cv::Mat depth(2, 3, CV_16UC1, cv::Scalar(0));
  depth.at<uint16_t>(0, 1) = 1500;
  depth.at<uint16_t>(1, 2) = 65535;
  ASSERT_TRUE(cv::imwrite((folder / "d.png").string(), depth));
  const DepthMap map = read_depth_png(folder / "d.png", 0.001);
  EXPECT_EQ(map.name, "d.png");
  EXPECT_EQ(map.width, 3);
  EXPECT_EQ(map.height, 2);
  EXPECT_THAT(map.values, ElementsAre(0, 1.5F, 0, 0, 0, 65.535F));
  ASSERT_TRUE(cv::imwrite((folder / "rgb.png").string(), test::flat_picture(4, 4, 9)));
  EXPECT_THAT(refusal([&] { read_depth_png(folder / "rgb.png", 1); }),
              HasSubstr("rgb.png: not a 16-bit grey image"));
  auto bytes = test::read_bytes(folder / "d.png");
  bytes.resize(bytes.size() - 20);
  test::write_bytes(folder / "short.png", bytes);
  EXPECT_THAT(refusal([&] { read_depth_png(folder / "short.png", 1); }), HasSubstr("short.png: "));
}

TEST(DepthFiles, PfmIsStoredFromBelow) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "d.pfm", "Pf\n2 2\n-1.0\n" + bytes_of<float>({1, INFINITY, 3, 4}));
  EXPECT_THAT(read_depth_pfm(folder / "d.pfm").values, ElementsAre(3, 4, 1, 0));
  test::write_text(folder / "big.pfm", std::string("Pf\n1 1\n1\n") + std::string("\x3f\x80\0\0", 4));
  EXPECT_THAT(read_depth_pfm(folder / "big.pfm").values, ElementsAre(1));
  for (const char* text :
       {"Pf\n", "Pf\n2 2\n-1\nabc", "Pf\n-2 2\n-1\n", "Pf\n99999 99999\n-1\n", "Pf\n60000 60000\n-1\n",
        "PF\n1 1\n-1\n", "Pf\n1 1\n0\nabcd", "Pf\n1 1\nnan\nabcd"}) {
    test::write_text(folder / "bad.pfm", text);
    EXPECT_THAT(refusal([&] { read_depth_pfm(folder / "bad.pfm"); }), HasSubstr("bad.pfm: ")) << text;
  }
}

std::string npy(const std::string& dictionary, const std::string& data) {
  const std::vector<uint16_t> length = {static_cast<uint16_t>(dictionary.size())};
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of(length) + dictionary + data;
}

TEST(DepthFiles, NpyOfOneFrameOrSeveral) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n",
                                         bytes_of<float>({1, 2})));
  const std::vector<DepthMap> one = read_depth_npy(folder / "a.npy");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].name, "a.npy");
  EXPECT_THAT(one[0].values, ElementsAre(1, 2));
  test::write_text(folder / "b.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1, 2), }",
                                         bytes_of<double>({1, 2, 3, 4})));
  const std::vector<DepthMap> two = read_depth_npy(folder / "b.npy");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_THAT(two[1].values, ElementsAre(3, 4));
  EXPECT_EQ(two[1].width, 2);
}

TEST(DepthFiles, NpyRefusals) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    test::write_text(folder / "x.npy", text);
    return refusal([&] { read_depth_npy(folder / "x.npy"); });
  };
  const auto of_shape = [](const std::string& shape) {
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }", "abcd");
  };
  EXPECT_THAT(refused(""), HasSubstr("x.npy: it ends too early"));
  EXPECT_THAT(refused("\x93NUMPX\x01"), HasSubstr("not a .npy file"));
  EXPECT_THAT(refused(npy("{}", "")), HasSubstr("'descr'"));
  EXPECT_THAT(refused(npy("{'descr': '|O'}", "")), HasSubstr("type is '|O'"));
  EXPECT_THAT(refused(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "abcd")),
              HasSubstr("Fortran"));
  EXPECT_THAT(refused(of_shape("(1, 2)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(4000000000000000000, 1, 1)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(99999999999999999999, 1, 1)")), HasSubstr("whole number"));
  EXPECT_THAT(refused(of_shape("(65000, 65000)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(0, 1, 1)")), HasSubstr("too early"));
  EXPECT_THAT(refused(of_shape("(-1, 1)")), HasSubstr("sides"));
  EXPECT_THAT(refused(of_shape("(1,)")), HasSubstr("1 dimensions"));
  EXPECT_THAT(refused(of_shape("(1, z)")), HasSubstr("'z'"));
}

}  // namespace
}  // namespace vggt
