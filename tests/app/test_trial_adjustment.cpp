#include <gtest/gtest.h>

#include <optional>

#include "app/adjust/adjust_scene.h"
#include "app/adjust/trial_adjustment.h"

namespace {

using namespace vggt;

TEST(TrialAdjustment, FindsEnoughToAdjust) {
  const std::optional<AdjustmentTime> time = time_trial_adjustment({});
  ASSERT_TRUE(time);
  EXPECT_GT(time->seconds, 0);
  EXPECT_GT(time->work, adjustment_work(6, 0));
}

TEST(TrialAdjustment, Stops) {
  Events events;
  events.stop = [] { return true; };
  EXPECT_THROW(time_trial_adjustment(events), Stopped);
}

}  // namespace
