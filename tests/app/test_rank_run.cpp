// One run that several ranks make together, here threads on the CPU: its result is one rank's, and ranks that
// do not fit together say so, all of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/run/rank_run.h"
#include "app/run/reconstruct.h"
#include "io/files/content_sum.h"
#include "io/weights/weight_tools.h"
#include "model/ranks/thread_group.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class RankRun : public ::testing::Test {
 protected:
  RankRun() {
    std::string name = (fs::temp_directory_path() / "vggt_rank_run_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    options_.frames = VGGT_SOURCE_DIR "/examples/room";
    options_.weights = VGGT_SOURCE_DIR "/weights/vggt-small.ts";
    options_.device = "cpu";
    options_.width = 140;
    options_.max_frames = 5;
    options_.bundle_adjust = "off";
  }
  ~RankRun() override { fs::remove_all(dir_); }

  RunPlan plan_of(const Options& given, const std::string& folder, int64_t ranks) const {
    Options options = given;
    options.out = (dir_ / folder).string() + "/";
    RunPlan plan = plan_run(options);
    plan.memory.ranks = ranks;
    plan.keep_maps = true;
    return plan;
  }

  /// What work(rank, group) gives on each rank.
  template <class Work>
  static auto on_ranks(int64_t ranks, const Work& work) {
    auto groups = make_thread_groups(ranks);
    using Result = decltype(work(int64_t{}, *groups.front()));
    std::vector<std::future<Result>> running;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      auto run = [&work, rank, given = std::move(groups[static_cast<std::size_t>(rank)])]() mutable {
        const std::unique_ptr<Group> group = std::move(given);  // a rank that ends takes its group with it
        return work(rank, *group);
      };
      running.push_back(std::async(std::launch::async, std::move(run)));
    }
    std::vector<Result> results;
    for (auto& one : running) results.push_back(one.get());
    return results;
  }

  /// The errors of two ranks, of which the second has other options.
  std::vector<std::string> refusals(const std::function<void(Options&)>& change) const {
    return on_ranks(2, [&](int64_t rank, Group& group) -> std::string {
      Options options = options_;
      if (rank == 1) change(options);
      try {
        agree(plan_of(options, "refused", 2), group);
      } catch (const std::invalid_argument& error) {
        return error.what();
      }
      return "(agreed)";
    });
  }

  static void expect_equal(const Reconstruction& got, const Reconstruction& expected) {
    ASSERT_EQ(got.cameras.size(), expected.cameras.size());
    for (std::size_t i = 0; i < expected.cameras.size(); ++i) {
      const Camera &a = got.cameras[i].camera, &b = expected.cameras[i].camera;
      EXPECT_LE((a.cam_from_world.matrix() - b.cam_from_world.matrix()).norm(), 1e-5) << i;
      EXPECT_LE((a.k - b.k).norm(), 1e-5 * b.k.norm()) << i;
    }
    const auto expect_close = [](const std::vector<float>& a, const std::vector<float>& b) {
      ASSERT_EQ(a.size(), b.size());
      double farthest = 0;
      for (std::size_t i = 0; i < b.size(); ++i)
        farthest = std::max(farthest, std::abs(double{a[i]} - b[i]) / std::abs(double{b[i]}));
      EXPECT_LE(farthest, 1e-4);
    };
    expect_close(got.arrays.depth, expected.arrays.depth);
    expect_close(got.arrays.confidence, expected.arrays.confidence);
  }

  Options options_;
  fs::path dir_;
};

TEST_F(RankRun, GivesWhatOneRankGives) {
  for (const std::string merge : {"off", "on"}) {
    options_.merge = merge;
    const Reconstruction alone = reconstruct(plan_of(options_, "alone", 1), {});
    ASSERT_FALSE(alone.arrays.depth.empty());
    for (const int64_t ranks : {2, 3}) {
      SCOPED_TRACE("--merge " + merge + ", " + std::to_string(ranks) + " ranks");
      const std::string folder = "ranks" + std::to_string(ranks);
      const std::vector<Reconstruction> of_ranks = on_ranks(ranks, [&](int64_t, Group& group) {
        return reconstruct(plan_of(options_, folder, ranks), {}, {.group = &group});
      });
      expect_equal(of_ranks.front(), alone);
      EXPECT_EQ(of_ranks.front().report.rank_peak_bytes.size(), static_cast<std::size_t>(ranks));
      const auto size = fs::file_size(dir_ / folder / "scene.ply"),
                 expected = fs::file_size(dir_ / "alone/scene.ply");
      EXPECT_NEAR(static_cast<double>(size), static_cast<double>(expected),
                  0.001 * static_cast<double>(expected));
      for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) EXPECT_TRUE(of_ranks[rank].written.empty());
    }
  }
}

TEST_F(RankRun, RanksThatFitAgreeAndAreCounted) {
  for (const int64_t here :
       on_ranks(3, [&](int64_t, Group& group) { return agree(plan_of(options_, "", 3), group); }))
    EXPECT_EQ(here, 3) << "all are on this machine";
  for (const std::string& answer : refusals([](Options& o) { o.quiet = true; }))
    EXPECT_EQ(answer, "(agreed)");
}

TEST_F(RankRun, OtherOptionsAreRefusedOnEveryRank) {
  for (const std::string& answer : refusals([this](Options& o) { o.scratch = dir_.string(); }))
    EXPECT_NE(answer.find("rank 1 does not fit rank 0: it has --scratch"), std::string::npos) << answer;
  for (const std::string& answer : refusals([](Options& o) { o.merge = "on"; })) {
    EXPECT_NE(answer.find("rank 1 does not fit rank 0"), std::string::npos) << answer;
    EXPECT_NE(answer.find("--merge on instead of \"auto\""), std::string::npos) << answer;
  }
}

TEST_F(RankRun, OtherWeightsAreRefusedOnEveryRank) {
  const fs::path other = dir_ / "other.ts";
  fs::copy_file(options_.weights, other);
  fs::copy_file(VGGT_SOURCE_DIR "/weights/vggt-small.config.json", dir_ / "other.config.json");
  const auto use_other = [&](Options& o) { o.weights = other.string(); };
  for (const std::string& answer : refusals(use_other)) EXPECT_EQ(answer, "(agreed)") << "they lie elsewhere";

  std::ofstream(dir_ / "other.config.json") << R"({"fit": "whole", "rope_freq": 10})";
  for (const std::string& answer : refusals(use_other))
    EXPECT_NE(answer.find("it has another config.json"), std::string::npos) << answer;
  fs::copy_file(VGGT_SOURCE_DIR "/weights/vggt-small.config.json", dir_ / "other.config.json",
                fs::copy_options::overwrite_existing);

  std::fstream file(other, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<std::streamoff>(fs::file_size(other));
  for (std::streamoff at = size / 4; at < size / 2; at += 30000) {  // tensors
    file.seekp(at);
    file.put('\x55');
  }
  file.close();
  for (const std::string& answer : refusals(use_other))
    EXPECT_NE(answer.find("rank 1 does not fit rank 0: it has other weights"), std::string::npos) << answer;
}

TEST_F(RankRun, OneOtherNumberInTheWeightsIsFound) {
  // As safetensors, which have no checksums of their own. Of a file of this size agree() compares a sample.
  const fs::path one = dir_ / "one.safetensors", other = dir_ / "other.safetensors";
  convert(WeightFile::open(options_.weights), one, at::kFloat, std::nullopt);
  ASSERT_GT(fs::file_size(one), kSummedWhole);
  fs::copy_file(one, other);
  const auto middle = static_cast<std::streamoff>(fs::file_size(other) / 2) + 100'001;
  std::fstream file(other, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(middle);
  const int before = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(before ^ 1));
  file.close();
  ASSERT_EQ(sampled_sum(one), sampled_sum(other));  // a sample of either
  const std::vector<std::string> answers = on_ranks(2, [&](int64_t rank, Group& group) -> std::string {
    Options options = options_;
    options.weights = (rank == 0 ? one : other).string();
    try {
      reconstruct(plan_of(options, "refused", 2), {}, {.group = &group});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "(agreed)";
  });
  for (const std::string& answer : answers)
    EXPECT_EQ(answer, "rank 1 does not fit rank 0: it has other weights");
}

TEST_F(RankRun, TheSmallestBudgetAndTheFirstRanksTaskHoldForAll) {
  const auto budgets = on_ranks(3, [](int64_t rank, Group& group) {
    MemoryBudget own;
    own.device = 100 - rank;
    own.host = 50 + rank;
    return smallest_budget(group, own);
  });
  for (const MemoryBudget& budget : budgets) {
    EXPECT_EQ(budget.device, 98);
    EXPECT_EQ(budget.host, 50);
  }
  const auto tasks = on_ranks(2, [](int64_t rank, Group& group) {
    RankTask task;
    task.frames = 7 + rank;
    task.height = 14;
    task.width = 28;
    task.merges = rank == 0;
    task.budget.scratch = "scratch" + std::to_string(rank);
    return share_task(group, task);
  });
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    EXPECT_EQ(tasks[rank].frames, 7);
    EXPECT_TRUE(tasks[rank].merges);
    EXPECT_EQ(*tasks[rank].budget.scratch, "scratch" + std::to_string(rank)) << "a rank's own folder";
  }
}

TEST_F(RankRun, ARankThatFailsEndsTheOthers) {
  const auto answers = on_ranks(2, [&](int64_t rank, Group& group) -> std::string {
    try {
      RunPlan plan = plan_of(options_, "lost", 2);
      if (rank == 1) return "left";  // its group goes with it
      reconstruct(plan, {}, {.group = &group});
    } catch (const std::exception& error) {
      return error.what();
    }
    return "(done)";
  });
  EXPECT_NE(answers[0], "(done)");
  EXPECT_FALSE(fs::exists(dir_ / "lost/scene.ply")) << "nothing is half-written";
}

}  // namespace
}  // namespace vggt
