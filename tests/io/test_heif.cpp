// HEIF and AVIF as telephones write them: grids, rotations, ten bits, transparency; and damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "io/frames/image_files.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

const std::filesystem::path kFolder = VGGT_FIXTURES "/heif";

using Bytes = std::vector<uint8_t>;

struct Sample {
  const char* name;
  int width, height;
  bool alpha = false, gray = false;
};

std::ostream& operator<<(std::ostream& out, const Sample& sample) {
  return out << sample.name;
}

// Interleaved [H,W,3].
Bytes rgb_of(const DecodedImage& image) {
  Bytes rgb(3 * image.pixels.total());
  for (int y = 0; y < image.pixels.rows; ++y)
    rgb_row(image, y, &rgb[3 * static_cast<std::size_t>(y * image.pixels.cols)]);
  return rgb;
}

class Heif : public testing::TestWithParam<Sample> {};

// Transforms are done once, by the file's boxes, whatever its EXIF says besides.
TEST_P(Heif, ShowsItsPictureUpright) {
  const Sample& sample = GetParam();
  const ImageFile file(kFolder / sample.name);
  EXPECT_EQ(file.upright_size(), std::make_pair(int64_t{sample.width}, int64_t{sample.height}));
  EXPECT_EQ(file.header().format, ImageFormat::heif);
  EXPECT_EQ(file.header().orientation, 1);
  EXPECT_EQ(file.header().alpha, sample.alpha ? Alpha::on_white : Alpha::drop);
  const DecodedImage image = file.decode();
  ASSERT_EQ(image.pixels.cols, sample.width);
  ASSERT_EQ(image.pixels.rows, sample.height);
  const cv::Mat truth = test::position_picture(sample.width, sample.height);
  const Bytes rgb = rgb_of(image);
  int most = 0;
  for (int y = 0; y < sample.height; ++y) {
    for (int x = 0; x < sample.width; ++x) {
      const bool half_clear = sample.alpha && x >= sample.width / 2;
      if (sample.alpha && std::abs(x - sample.width / 2) < 4) continue;  // alpha is compressed too
      for (int c = 0; c < 3; ++c) {
        const int color = truth.at<cv::Vec3b>(y, x)[sample.gray ? 2 : 2 - c];
        const int expected = half_clear ? 255 - (255 - color) / 4 : color;
        most = std::max(
            most,
            std::abs(expected -
                     rgb[3 * static_cast<std::size_t>(y * sample.width + x) + static_cast<std::size_t>(c)]));
      }
    }
  }
  EXPECT_LE(most, 6);  // of a lossy file; a wrong turn makes more than 100
}

// The program heif-convert of the libheif that is installed; alpha it writes apart from the colours.
TEST_P(Heif, EqualsHeifConvertToTheBit) {
  const Sample& sample = GetParam();
  if (std::system("heif-convert --help >/dev/null 2>&1") != 0) GTEST_SKIP() << "no heif-convert";
  const test::TemporaryFolder folder;
  const std::string out = (folder / "out.png").string();
  const std::string command =
      "heif-convert '" + (kFolder / sample.name).string() + "' '" + out + "' >/dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const bool numbered =
      !std::filesystem::exists(out);  // where the file has several images, the last is primary
  cv::Mat expected = cv::imread(numbered ? (folder / "out-2.png").string() : out, cv::IMREAD_UNCHANGED);
  ASSERT_FALSE(expected.empty());
  // Ten bits it writes as sixteen; ours are their upper eight.
  if (expected.depth() == CV_16U) {
    for (int y = 0; y < expected.rows; ++y) {
      auto* row = expected.ptr<uint16_t>(y);
      for (int x = 0; x < expected.cols * expected.channels(); ++x) row[x] >>= 8;
    }
    expected.convertTo(expected, CV_8U);
  }
  const cv::Mat ours = ImageFile(kFolder / sample.name).decode().pixels;
  ASSERT_EQ(expected.type(), ours.type());
  ASSERT_EQ(expected.size(), ours.size());
  EXPECT_EQ(cv::norm(ours, expected, cv::NORM_INF), 0);
}

INSTANTIATE_TEST_SUITE_P(Files, Heif,
                         testing::Values(Sample{"telephone.heic", 88, 120}, Sample{"mirrored.heic", 120, 88},
                                         Sample{"several.heic", 120, 88}, Sample{"plain.avif", 120, 88},
                                         Sample{"deep.heic", 120, 88}, Sample{"deep.avif", 120, 88},
                                         Sample{"gray.heic", 120, 88, false, true},
                                         Sample{"alpha.heic", 120, 88, true},
                                         Sample{"alpha.avif", 120, 88, true}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// As measured of 42 megapixels: what is decoded, and the decoder beside it.
TEST(HeifHeaders, TellWhatDecodingTakes) {
  const auto bytes = [](const char* name) {
    const ImageHeader header = read_image_header(FileMapping(InputFile(kFolder / name)).bytes());
    return header.bytes_per_pixel + header.decoder_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes("telephone.heic"), 6.8);
  EXPECT_DOUBLE_EQ(bytes("alpha.heic"), 9.1);
  EXPECT_DOUBLE_EQ(bytes("deep.heic"), 12.5);
  EXPECT_DOUBLE_EQ(bytes("plain.avif"), 14.6);
  EXPECT_DOUBLE_EQ(bytes("alpha.avif"), 14.6);
  EXPECT_DOUBLE_EQ(bytes("deep.avif"), 21);
}

TEST(HeifFrames, AreFramesLikeOthers) {
  FrameOptions options;
  options.source = kFolder;
  options.width = 56;
  test::StderrCapture capture;
  const FrameSet set = load_frames(options);
  EXPECT_EQ(capture.text(), "");
  EXPECT_THAT(set.warnings, SizeIs(0));
  ASSERT_THAT(set.frames, SizeIs(9));
  EXPECT_EQ(set.frames[8].file, "telephone.heic");
  EXPECT_EQ(set.frames[8].original_width, 88);
  EXPECT_THAT(set.frames[8].camera, AllOf(HasSubstr("Maker"), HasSubstr("Model 7")));
  test::expect_sized(options);
}

// Frames as FrameSet has them, or one line; never a crash, and nothing on stderr.
FrameSet load_damaged(const test::TemporaryFolder& folder) {
  test::write_bytes(folder / "good.png", test::encoded(".png", test::flat_picture(30, 30, 5)));
  FrameOptions options;
  options.source = folder.path();
  options.width = 56;
  test::StderrCapture capture;
  FrameSet set = load_frames(options);
  EXPECT_EQ(capture.text(), "");
  for (const std::string& warning : set.warnings) EXPECT_THAT(warning, Not(HasSubstr("\n")));
  return set;
}

TEST(HeifDamage, ACutFileIsSkippedWhereverItEnds) {
  const test::TemporaryFolder folder;
  std::size_t count = 0;
  for (const char* name : {"telephone.heic", "plain.avif", "deep.heic"}) {
    const Bytes whole = test::read_bytes(kFolder / name);
    for (const double share : {0.005, 0.02, 0.1, 0.3, 0.6, 0.9, 0.99}) {
      const auto end = static_cast<std::ptrdiff_t>(share * static_cast<double>(whole.size()));
      test::write_bytes(folder / (std::to_string(count++) + name), {whole.begin(), whole.begin() + end});
    }
  }
  const FrameSet set = load_damaged(folder);
  EXPECT_THAT(set.frames, SizeIs(1));
  EXPECT_THAT(set.warnings, SizeIs(count));
}

TEST(HeifDamage, FlippedBitsNeverCrash) {
  const test::TemporaryFolder folder;
  std::mt19937 random(7);
  std::size_t count = 0;
  for (const char* name : {"telephone.heic", "alpha.avif", "deep.heic", "mirrored.heic"}) {
    const Bytes whole = test::read_bytes(kFolder / name);
    for (int i = 0; i < 60; ++i) {
      Bytes bytes = whole;
      for (int flips = 0; flips <= i % 3; ++flips)
        bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1U << random() % 8);
      test::write_bytes(folder / (std::to_string(count++) + name), bytes);
    }
  }
  const FrameSet set = load_damaged(folder);
  EXPECT_EQ(set.frames.size() + set.warnings.size(), count + 1);
}

TEST(HeifDamage, ASizeThatCannotBeIsRefusedBeforeDecoding) {
  Bytes bytes = test::read_bytes(kFolder / "plain.avif");
  const std::string box = "ispe";
  const auto found = std::search(bytes.begin(), bytes.end(), box.begin(), box.end());
  ASSERT_NE(found, bytes.end());
  found[8] = found[12] = 0x7F;  // width and height of 2 billion
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "huge.avif", bytes);
  FrameOptions options;
  options.source = folder.path();
  EXPECT_THAT(test::load_error(options), HasSubstr("huge.avif: "));
  options.pixels = false;
  EXPECT_THAT(test::load_error(options), HasSubstr("huge.avif: "));
}

}  // namespace
}  // namespace vggt
