// What progress says: how far, how fast, how long still.
#include <gtest/gtest.h>

#include "app/cli/console.h"

namespace vggt {
namespace {

TEST(ProgressLine, SaysRateAndTimeLeft) {
  EXPECT_EQ(progress_line("frames", "frames", 0, 10, 3), "frames: 0/10 frames");
  EXPECT_EQ(progress_line("frames", "frames", 3, 10, 0.1), "frames: 3/10 frames");
  EXPECT_EQ(progress_line("frames", "frames", 4, 10, 8), "frames: 4/10 frames, 0.5 frames/s, 12 s left");
  EXPECT_EQ(progress_line("frames", "frames", 1, 101, 2),
            "frames: 1/101 frames, 0.5 frames/s, 3 min 20 s left");
  EXPECT_EQ(progress_line("frames", "frames", 10, 10, 20), "frames: 10/10 frames, 0.5 frames/s");
}

// Of a video nobody knows beforehand how many frames it has.
TEST(ProgressLine, WithoutATotal) {
  EXPECT_EQ(progress_line("frames", "frames", 7, 0, 14), "frames: 7 frames, 0.5 frames/s");
}

}  // namespace
}  // namespace vggt
