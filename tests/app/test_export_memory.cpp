// What reading and exporting large images takes is no more than what they are counted with.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <random>
#include <string>
#include <vector>

#include "app/export/export_maps.h"
#include "app/export/exported_images.h"
#include "io/frames/image_files.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

constexpr int kWidth = 2000, kHeight = 1500;
constexpr int64_t kSlack = 4'000'000;  // of the decoders' tables, and of pages

int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == name + ":" && status >> word) return 1024 * std::stoll(word);
  }
  return 0;
}

/// How much more memory than before the process holds while it does this for the second time, when what it
/// keeps is there. What is freed goes back at once, as in a run with --host-memory.
template <class Work>
int64_t growth_of(Work&& work) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  work();
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = status_bytes("VmRSS");
  work();
  return status_bytes("VmHWM") - before;
}

/// Half noise, as photographs are.
cv::Mat photograph(unsigned seed) {
  cv::Mat picture = test::position_picture(kWidth, kHeight);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < picture.total() * picture.elemSize(); ++i)
    picture.data[i] = static_cast<uint8_t>(picture.data[i] / 2 + random() % 128);
  return picture;
}

TEST(ImageMemory, DecodingTakesWhatIsCounted) {
  const test::TemporaryFolder folder;
  const cv::Mat picture = photograph(1);
  struct Format {
    std::string extension;
    std::vector<int> parameters;
    int orientation = 1;
  };
  const std::vector<Format> formats = {
      {".jpg", {cv::IMWRITE_JPEG_QUALITY, 90}},
      {".jpg", {cv::IMWRITE_JPEG_QUALITY, 90}, 6},
      {".jpg", {cv::IMWRITE_JPEG_QUALITY, 90, cv::IMWRITE_JPEG_PROGRESSIVE, 1}},
      {".png", {cv::IMWRITE_PNG_COMPRESSION, 1}},
      {".webp", {cv::IMWRITE_WEBP_QUALITY, 80}},
      {".webp", {cv::IMWRITE_WEBP_QUALITY, 101}},  // without loss
      {".tiff", {}},
      {".bmp", {}}};
  for (std::size_t i = 0; i < formats.size(); ++i) {
    SCOPED_TRACE(formats[i].extension + " " + std::to_string(i));
    std::vector<uint8_t> bytes;
    ASSERT_TRUE(cv::imencode(formats[i].extension, picture, bytes, formats[i].parameters));
    if (formats[i].orientation != 1) bytes = test::with_exif(bytes, formats[i].orientation, false);
    const std::filesystem::path path = folder / (std::to_string(i) + formats[i].extension);
    test::write_bytes(path, bytes);
    bytes = {};
    const ImageFile file(path);
    const auto counted = static_cast<int64_t>(file.decoding_bytes());
    std::size_t decoded = 0;
    const int64_t growth = growth_of([&] {
      const DecodedImage image = file.decode();
      decoded = image.pixels.total() * image.pixels.elemSize();
    });
    EXPECT_LE(growth, counted + kSlack);
    EXPECT_GE(growth, counted / 2);
    EXPECT_LE(decoded, file.decoded_bytes());
  }
}

/// Four images that undistort and their maps.
class ExportMemory : public ::testing::Test {
 protected:
  static constexpr int kFrames = 4;
  ExportMemory() {
    std::filesystem::create_directories(folder_ / "in");
    std::filesystem::create_directories(folder_ / "out");
    for (unsigned i = 0; i < kFrames; ++i) {
      const std::string name = "in/" + std::to_string(i) + (i % 2 == 0 ? ".jpg" : ".png");
      test::write_bytes(folder_ / name, test::encoded(name.substr(4), photograph(i)));
    }
    FrameOptions options;
    options.source = folder_ / "in";
    options.width = 56;
    frames_ = load_frames(options);
    for (const Frame& frame : frames_.frames) {
      Camera& camera = cameras_.emplace_back(FrameCamera{frame.file, frame.time_s}).camera;
      camera.map = frame.map;
      camera.width = frames_.width;
      camera.height = frames_.height;
      camera.original_width = frame.original_width;
      camera.original_height = frame.original_height;
      camera.k << 60, 0, 27.5, 0, 60, 20, 0, 0, 1;
      camera.model = CameraModel::simple_radial;
      camera.distortion << .05, 0;
    }
    plan_.colmap = folder_ / "colmap";
    plan_.depth = folder_ / "depth";
    plan_.images = ExportedAs::undistorted;
  }

  const FrameWork work_{kFrames, {}};
  test::TemporaryFolder folder_;
  ExportPlan plan_;
  FrameSet frames_;
  std::vector<FrameCamera> cameras_;
};

TEST_F(ExportMemory, OneCopyIsMadeAfterTheOtherWhereTheLimitIsLow) {
  const ExportedImages images(plan_, folder_ / "in", frames_);
  const auto one = static_cast<int64_t>(std::max(images.copy_bytes(0), images.copy_bytes(1)));
  EXPECT_LE(one, 8 * kWidth * kHeight);
  const auto write = [&](std::size_t limit) {
    return growth_of([&] { images.write_copies(folder_ / "out", cameras_, work_, limit); });
  };
  EXPECT_LE(write(static_cast<std::size_t>(one)), one + kSlack);
  EXPECT_LE(write(0), one + kSlack);
  EXPECT_GT(write(SIZE_MAX), 2 * one);
}

TEST_F(ExportMemory, MapsTakeWhatIsCounted) {
  const ExportedImages images(plan_, folder_ / "in", frames_);
  DenseMaps depth(std::make_shared<HostSpace>(), "test");
  const std::size_t pixels =
      static_cast<std::size_t>(frames_.width) * static_cast<std::size_t>(frames_.height);
  for (int i = 0; i < kFrames; ++i)
    depth.put(i, std::vector<float>(pixels, 1 + .1F * static_cast<float>(i)), std::vector<float>(pixels, 2));
  const std::vector<FrameView> seen(kFrames, FrameView{0, frames_.width, 0, frames_.height});
  const std::vector<Track> tracks;
  for (const MapFormat format : {MapFormat::png, MapFormat::exr, MapFormat::npy}) {
    plan_.map_format = format;
    const auto one = static_cast<int64_t>(map_bytes(plan_, kWidth, kHeight));
    ExportInput input{cameras_, tracks, {}, &depth, seen, frames_.width, {}, work_};
    input.image_bytes = static_cast<std::size_t>(one);
    const int64_t growth =
        growth_of([&] { export_maps(folder_ / "out", MapKind::depth, plan_, input, images); });
    EXPECT_LE(growth, one + kSlack) << static_cast<int>(format);
  }
}

}  // namespace
}  // namespace vggt
