// A run within limits of memory: the same files as without, or one line that says what would do.
#include <gtest/gtest.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

class MemoryTest : public CliTest {
 protected:
  static constexpr int kFrames = 12;
  MemoryTest() {
    fs::create_directory(dir_ / "large");
    fs::create_directory(dir_ / "scratch");
    for (int i = 0; i < kFrames; ++i) make_image("large/" + std::to_string(i) + ".png", 518, 392, i);
  }
  /// A run of frames whose pixels and depth take 27 MB in all.
  Outcome limited(const std::string& out, const std::string& more) {
    return reconstruct("--frames large --width 518 --no-autotune --merge off --out " + out +
                       "/ --save-predictions " + out + ".safetensors" + more);
  }
};

TEST_F(MemoryTest, LimitsThatNoRunKeepsAreRefused) {
  expect_refusal(reconstruct("--frames frames --out o/ --gpu-memory 6GB"),
                 "gpu-memory: the run is on the CPU");
  expect_refusal(reconstruct("--frames frames --out o/ --host-memory 50MB"),
                 "host-memory: the program itself");
  expect_refusal(reconstruct("--frames frames --out o/ --host-memory lots"), "host-memory: 'lots'");
  expect_refusal(reconstruct("--frames frames --out o/ --scratch nowhere"),
                 "scratch: no folder can be made in");
  EXPECT_FALSE(fs::exists(path("o")));
}

TEST_F(MemoryTest, FilesHoldWhatMemoryMayNotAndGiveTheSameScene) {
  const std::string for_network = " --host-memory 775MB", for_frames = " --host-memory 795MB";  // too little
  expect_refusal(limited("a", for_network), "--scratch");
  const Outcome without = limited("b", for_frames);
  EXPECT_EQ(without.code, 3);
  expect_one_error(without, "--scratch");
  EXPECT_FALSE(fs::exists(path("a")) || fs::exists(path("b")) || fs::exists(path("b.safetensors")));
  ASSERT_EQ(limited("memory", "").code, 0);
  const Outcome disk = limited("disk", for_network + " --scratch scratch");
  ASSERT_EQ(disk.code, 0) << disk.err;
  for (const std::string file : {"/scene.ply", "/scene.cameras.json", "/scene.tum", ".safetensors"})
    EXPECT_TRUE(text_of(path("memory" + file)) == text_of(path("disk" + file))) << file;
  EXPECT_TRUE(fs::is_empty(path("scratch")));
}

TEST_F(MemoryTest, EveryPresetLoadsWhereThereIsNoGpu) {
  int presets = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(VGGT_SOURCE_DIR) / "configs")) {
    const Outcome outcome = reconstruct("--no-autotune --dry-run --frames frames --out o/ --config '" +
                                        entry.path().string() + "'");
    EXPECT_EQ(outcome.code, 0) << entry.path() << outcome.err;
    ++presets;
  }
  EXPECT_GE(presets, 5);
}

}  // namespace
}  // namespace vggt::test
