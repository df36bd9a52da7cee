// The plans of streamed attention: within the bytes given, with the traffic that the schedule has, and finer
// ones after a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "attention/cpu/cpu_kernel.h"
#include "attention/stream/quorum.h"
#include "attention/stream/stream_guardrail.h"
#include "attention/stream/stream_plan.h"

namespace {

using vggt::StreamGuardrail;
using vggt::StreamPlan;
using vggt::StreamSchedule;
using vggt::StreamShape;

constexpr int64_t kMillion = 1'000'000;

StreamPlan blocks(int64_t query_block, int64_t key_chunk, int loaded) {
  StreamPlan plan;
  plan.step = query_block;
  plan.query_block = query_block;
  plan.key_chunk = key_chunk;
  plan.loaded = loaded;
  return plan;
}

StreamPlan parts(int quorum, int depth, int loaded) {
  StreamPlan plan;
  plan.schedule = StreamSchedule::quorums;
  plan.step = 64;
  plan.quorum = quorum;
  plan.depth = depth;
  plan.loaded = loaded;
  return plan;
}

/// Rows of keys that blocks load when a chunk stays as long as none of the next `loaded` chunks needs its
/// place.
int64_t keys_loaded(int64_t tokens, bool in_order, const StreamPlan& plan) {
  const int64_t chunks = (tokens + plan.key_chunk - 1) / plan.key_chunk;
  std::vector<int64_t> uses;
  for (int64_t block = 0; block * plan.query_block < tokens; ++block) {
    for (int64_t i = 0; i < chunks; ++i) uses.push_back(in_order || block % 2 == 0 ? i : chunks - 1 - i);
  }
  std::set<int64_t> there;
  int64_t rows = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::size_t end = std::min(uses.size(), i + static_cast<std::size_t>(plan.loaded));
    const std::set<int64_t> window(uses.begin() + static_cast<std::ptrdiff_t>(i),
                                   uses.begin() + static_cast<std::ptrdiff_t>(end));
    for (int64_t chunk : window) {
      if (there.contains(chunk)) continue;
      if (std::ssize(there) == plan.loaded)
        there.erase(std::ranges::find_if(there, [&](int64_t old) { return !window.contains(old); }));
      there.insert(chunk);
      rows += std::min(plan.key_chunk, tokens - chunk * plan.key_chunk);
    }
  }
  return rows;
}

TEST(StreamPlan, BlocksLoadWhatTheyCount) {
  for (int64_t tokens : {1, 99, 100, 101, 1000}) {
    for (int64_t chunk : {1, 7, 50, 100, 2000}) {
      for (int loaded : {1, 2, 3}) {
        for (int64_t block : {9, 50, 100, 5000}) {
          for (bool in_order : {false, true}) {
            const StreamShape shape{tokens, 3, 8, 4, false, in_order};
            const StreamPlan plan = settle_stream(shape, blocks(block, chunk, loaded));
            const int64_t row = 3 * 8 * 4;
            EXPECT_EQ(plan.bytes_to_device, (tokens + 2 * keys_loaded(tokens, in_order, plan)) * row)
                << tokens << " " << chunk << " " << loaded << " " << block << " " << in_order;
            EXPECT_EQ(plan.bytes_to_host, tokens * row);
            EXPECT_LE(plan.step, plan.query_block);
          }
        }
      }
    }
  }
}

TEST(StreamPlan, QueriesOnTheDeviceMoveNeitherWay) {
  StreamShape shape{1000, 2, 64, 2};
  const StreamPlan there = settle_stream(shape, blocks(1000, 100, 2));
  shape.queries_on_device = true;
  const StreamPlan here = settle_stream(shape, blocks(1000, 100, 2));
  EXPECT_EQ(here.bytes_to_host, 0);
  EXPECT_EQ(there.bytes_to_device - here.bytes_to_device, 1000 * 2 * 64 * 2);
  EXPECT_EQ(there.device_bytes - here.device_bytes, 1000 * 2 * 64 * 2);
}

TEST(StreamPlan, PartsMoveSharedTokensOnce) {
  const StreamShape shape{700, 1, 64, 2};
  const StreamPlan alone = settle_stream(shape, parts(0, 1, 1)), pairs = settle_stream(shape, parts(0, 1, 2));
  EXPECT_EQ(alone.subproblems, 7);
  EXPECT_EQ(alone.part_tokens, 300);
  EXPECT_EQ(alone.bytes_to_device, 7 * 300 * 3 * 128);
  EXPECT_EQ(pairs.bytes_to_device, (7 * 300 - 6 * 100) * 3 * 128);  // one chunk of each but the first
  EXPECT_EQ(alone.bytes_to_host, 7 * 300 * 4 * 66);
}

TEST(StreamPlan, AQuarterOfTheMemoryMovesAMillionTokensInTime) {
  const StreamShape shape{kMillion, 16, 64, 2};
  const int64_t quarter = kMillion * 16 * 64 * 2;  // of q, k, v and the output
  const StreamPlan plan = vggt::plan_blocked(shape, quarter);
  EXPECT_LE(plan.device_bytes, quarter);
  EXPECT_GE(plan.key_chunk, 1 << 15);  // or merging would show
  EXPECT_LT(vggt::stream_seconds(shape, plan), 1.1 * 4 * 1e12 * 1024 / 5e14);
  const vggt::StreamChoice choice = vggt::choose_stream(shape, quarter);
  EXPECT_EQ(choice.plan.schedule, StreamSchedule::blocked);
  EXPECT_NE(choice.reason.find("GB; "), std::string::npos) << choice.reason;
  EXPECT_EQ(choice.reason.find('\n'), std::string::npos);
}

TEST(StreamPlan, EverythingFitsIntoWhatIsGiven) {
  for (int64_t tokens : {1, 63, 64, 65, 1000, 104'100, 3'000'000}) {
    for (const auto& [heads, dim, element] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 64, 2}, {16, 64, 4}, {3, 5, 8}, {7, 96, 2}}) {
      for (const auto& [queries, in_order] :
           std::vector<std::pair<bool, bool>>{{false, false}, {true, false}, {false, true}}) {
        const StreamShape shape{tokens, heads, dim, element, queries, in_order};
        const int64_t resident = 4 * tokens * heads * dim * element;
        for (int64_t bytes : {resident / 32, resident / 4, resident, 4 * resident, int64_t{1} << 40}) {
          for (auto plan_of : {vggt::plan_blocked, vggt::plan_quorums}) {
            StreamPlan plan;
            try {
              plan = plan_of(shape, bytes);
            } catch (const std::invalid_argument&) {
              continue;
            }
            const StreamPlan settled = settle_stream(shape, plan);
            EXPECT_LE(plan.device_bytes, bytes);
            EXPECT_EQ(settled.device_bytes, plan.device_bytes);
            EXPECT_EQ(settled.bytes_to_device, plan.bytes_to_device);
            EXPECT_GE(plan.step, std::min<int64_t>(tokens, 1));
            if (in_order && plan.schedule == StreamSchedule::blocked) {
              EXPECT_EQ(vggt::choose_stream(shape, bytes).plan.schedule, StreamSchedule::blocked);
              EXPECT_TRUE(plan.key_chunk == tokens || plan.key_chunk % vggt::kKeyTile == 0) << plan.key_chunk;
            }
          }
        }
        EXPECT_NO_THROW(vggt::choose_stream(shape, int64_t{1} << 40));
      }
    }
  }
}

TEST(StreamPlan, FewerBytesWin) {
  for (int64_t tokens : {kMillion / 10, 4 * kMillion / 10, kMillion, 3 * kMillion}) {
    for (int64_t share : {4, 10, 20, 40}) {
      const StreamShape shape{tokens, 16, 64, 2};
      const int64_t bytes = tokens * 8192 / share;
      const auto moved = [](const StreamPlan& plan) { return plan.bytes_to_device + plan.bytes_to_host; };
      const StreamPlan own = vggt::choose_stream(shape, bytes).plan;
      const int64_t a = moved(vggt::plan_blocked(shape, bytes)), b = moved(vggt::plan_quorums(shape, bytes));
      EXPECT_EQ(moved(own), 10 * b < 9 * a ? b : a);
    }
  }
}

TEST(StreamPlan, TooFewBytesAreRefused) {
  const StreamShape shape{kMillion, 16, 64, 2};
  for (auto plan_of : {vggt::plan_blocked, vggt::plan_quorums}) {
    EXPECT_THROW(plan_of(shape, 100'000), std::invalid_argument);
    EXPECT_THROW(plan_of(shape, -1), std::invalid_argument);
    EXPECT_THROW(plan_of(StreamShape{0, 1, 1, 2}, 1 << 30), std::invalid_argument);
    EXPECT_THROW(plan_of(StreamShape{1, 1, 1, 3}, 1 << 30), std::invalid_argument);
  }
  EXPECT_THROW(vggt::choose_stream(shape, 100'000), std::invalid_argument);
  EXPECT_THROW(settle_stream(shape, parts(0, 5, 1)), std::invalid_argument);  // 16807 parts
  EXPECT_THROW(settle_stream(shape, parts(8, 1, 1)), std::invalid_argument);
  EXPECT_THROW(settle_stream(shape, blocks(0, 1, 1)), std::invalid_argument);
}

// ---- the guardrail

TEST(StreamGuardrail, TakesOneLessThenDividesThenCalibrates) {
  const StreamShape shape{10'000, 2, 64, 2};
  StreamGuardrail guard(shape, parts(0, 1, 3), std::numeric_limits<int64_t>::max());
  guard.succeeded();
  EXPECT_EQ(guard.plan().loaded, 3);
  for (int loaded : {2, 1}) {
    EXPECT_TRUE(guard.out_of_memory());
    EXPECT_EQ(guard.plan().loaded, loaded);
    EXPECT_EQ(guard.plan().depth, 1);
  }
  const int64_t failed = guard.plan().device_bytes;
  EXPECT_TRUE(guard.out_of_memory());
  EXPECT_EQ(guard.plan().depth, 2);
  EXPECT_EQ(guard.plan().loaded, 1);  // calibration
  guard.succeeded();
  EXPECT_GT(guard.plan().loaded, 1);
  EXPECT_LT(guard.plan().device_bytes, failed);
  const int loaded = guard.plan().loaded;
  guard.succeeded();
  EXPECT_EQ(guard.plan().loaded, loaded);
}

TEST(StreamGuardrail, DividesAgainWhereCalibrationFails) {
  StreamGuardrail guard({10'000, 2, 64, 2}, parts(0, 1, 1), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(guard.out_of_memory());
  EXPECT_TRUE(guard.out_of_memory());
  EXPECT_EQ(guard.plan().depth, 3);
}

TEST(StreamGuardrail, EndsAtTheFinest) {
  for (const StreamPlan& plan : {parts(0, 1, 2), blocks(4000, 1000, 2)}) {
    StreamGuardrail guard({10'000, 2, 64, 2}, plan, std::numeric_limits<int64_t>::max());
    int times = 0;
    int64_t bytes = guard.plan().device_bytes;
    while (guard.out_of_memory()) {
      EXPECT_LT(guard.plan().device_bytes, bytes);
      bytes = guard.plan().device_bytes;
      ASSERT_LT(++times, 40);
    }
    EXPECT_GE(times, 4);
  }
}

}  // namespace
