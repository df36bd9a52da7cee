// Frames beyond the budget take no memory: their pixels lie in the scratch folder.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "io/frames/frames.h"
#include "tests/support/media.h"

namespace vggt {
namespace {

/// Of this process, at its peak, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> word) return 1024 * std::stoll(word);
  }
  return 0;
}

FrameOptions options_of(const test::fs::path& source, int width, const test::fs::path& scratch) {
  FrameOptions options;
  options.source = source;
  options.width = width;
  options.threads = 2;
  options.space = std::make_shared<HostSpace>(HostStorage{0, scratch});
  return options;
}

TEST(FrameMemory, PixelsOnDiskAreTheSame) {
  const test::TemporaryFolder folder, scratch;
  for (unsigned i = 0; i < 5; ++i) {
    test::write_bytes(folder / (std::to_string(i) + ".png"),
                      test::encoded(".png", test::noise_picture(60, 30 + 10 * static_cast<int>(i), i)));
  }
  test::write_text(folder / "2a.png", "bad");
  FrameOptions options = options_of(folder.path(), 56, scratch.path());
  {
    const FrameSet disk = load_frames(options);
    options.space = nullptr;
    const FrameSet memory = load_frames(options);
    EXPECT_EQ(scratch.file_count(), 1U);
    ASSERT_EQ(disk.frames.size(), 5U);
    EXPECT_EQ(disk.height, 56);  // so that some are padded
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(disk.rgb(i), memory.rgb(i)) << i;
      EXPECT_EQ(disk.frames[i].map.pad_y, memory.frames[i].map.pad_y);
    }
  }
  EXPECT_EQ(scratch.file_count(), 0U);
}

TEST(FrameMemory, DoesNotGrowWithTheFrames) {
  const test::TemporaryFolder folder, scratch;
  const auto png = test::encoded(".png", test::noise_picture(28, 28, 1));
  test::write_bytes(folder / "a.png", png);
  std::string names;
  for (int i = 0; i < 20'000; ++i) names += "a.png\n";
  test::write_text(folder / "many.txt", names);
  for (int i = 0; i < 1000; ++i) test::write_bytes(folder / ("b" + std::to_string(i) + ".png"), png);
  load_frames(options_of(folder / "a.png", 280, scratch.path()));  // OpenCV's own memory
  const int64_t before = peak_memory();
  {
    // 47 MB of pixels, and what is known of the frames beside them.
    const FrameSet many = load_frames(options_of(folder / "many.txt", 28, scratch.path()));
    EXPECT_EQ(many.frames.size(), 20'000U);
    EXPECT_EQ(many.rgb(19'999), many.rgb(0));
  }
  {
    // 235 MB of pixels.
    const FrameSet large = load_frames(options_of(folder.path(), 280, scratch.path()));
    EXPECT_EQ(large.frames.size(), 1001U);
    EXPECT_EQ(large.rgb(1000), large.rgb(0));
  }
  EXPECT_LT(peak_memory() - before, int64_t{32} << 20);
}

}  // namespace
}  // namespace vggt
