// Runs whose memory runs out at random moments: each goes on with a smaller plan and gives what an
// undisturbed run gives, to rounding.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <set>

#include "tests/support/failing_allocator.h"
#include "tests/support/golden.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::FailingAllocator;
using testing::Tensors;

const fs::path kNano = fs::path(VGGT_FIXTURES) / "golden/nano";
constexpr double kLimit = 1e-5;  // products of other numbers of rows round differently
constexpr int64_t kFrames = 16;  // so that the smaller plans work on several pieces
constexpr int kKinds = 4;        // of runs: exact or merged, with and without a scratch folder

/// Of each kind. VGGT_FAULT_RUNS asks for another number of all kinds together.
int runs() {
  const char* asked = std::getenv("VGGT_FAULT_RUNS");
  return (asked ? std::atoi(asked) : 200) / kKinds;
}

int64_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

struct Outcome {
  Tensors results;
  std::vector<std::string> warnings;
  std::string error;  // empty: the run has completed
  int cameras = 0, tracks = 0;
  std::vector<int> depth = std::vector<int>(kFrames), points = depth;  // calls of each frame
};

class FaultInjection : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  FaultInjection() {
    folder_ = fs::temp_directory_path() / ("fault_injection" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(3);
    images_ = at::rand({kFrames, 3, 42, 56}, random);
    queries_ = at::rand({5, 2}, random) * 40;
    options_.heads = {.camera = true, .depth = true, .points = true, .tracks = true};
    const auto [merged, scratch] = GetParam();
    if (merged) run_.merge = MergeOptions{};
    if (scratch) run_.budget.scratch = folder_;
    model_.emplace(config(), source_, options_);
    at::set_num_threads(1);  // so that a run's allocations have one order
  }
  ~FaultInjection() override { fs::remove_all(folder_); }

  Config config() const { return read_config(file_.config_json(), source_.shapes); }

  int plans() const {
    MemoryRequest request = memory_request(config(), options_);
    request.frames = kFrames;
    request.height = images_.size(2);
    request.width = images_.size(3);
    request.query_points = queries_.size(0);
    request.merge = run_.merge;
    request.budget = run_.budget;
    int count = 0;
    while (plan_memory(request, count).fits) ++count;
    return count;
  }

  void keep(Outcome& outcome, std::vector<int>& calls, int64_t first, const std::string& name,
            const at::Tensor& part) {
    at::Tensor& all = outcome.results[name];
    if (!all.defined()) {
      std::vector<int64_t> shape = part.sizes().vec();
      shape[0] = kFrames;
      all = at::full(shape, std::nan(""), part.options());
    }
    all.narrow(0, first, part.size(0)).copy_(part);
    for (int64_t i = 0; i < part.size(0); ++i) ++calls[static_cast<std::size_t>(first + i)];
  }

  Sink sink(Outcome& outcome) {
    Sink sink;
    sink.cameras = [&](const CameraPrediction& cameras) {
      const FailingAllocator::Pause pause(allocator_);
      ++outcome.cameras;
      outcome.results["pose_enc"] = cameras.pose_enc.clone();
    };
    sink.depth = [&](const DensePrediction& dense) {
      const FailingAllocator::Pause pause(allocator_);
      std::vector<int> again(kFrames);
      keep(outcome, outcome.depth, dense.first_frame, "depth", dense.depth);
      keep(outcome, again, dense.first_frame, "depth_conf", dense.depth_conf);
    };
    sink.points = [&](const DensePrediction& dense) {
      const FailingAllocator::Pause pause(allocator_);
      std::vector<int> again(kFrames);
      keep(outcome, outcome.points, dense.first_frame, "world_points", dense.world_points);
      keep(outcome, again, dense.first_frame, "world_points_conf", dense.world_points_conf);
    };
    sink.tracks = [&](const TrackPrediction& tracks) {
      const FailingAllocator::Pause pause(allocator_);
      ++outcome.tracks;
      outcome.results["track"] = tracks.track.clone();
      outcome.results["track_vis"] = tracks.track_vis.clone();
    };
    return sink;
  }

  /// One run, in which the allocator fails as it is armed.
  Outcome run() {
    Outcome outcome;
    try {
      model_->run(
          testing::provide(images_), queries_, sink(outcome),
          [&](const StageReport& report) {
            if (!report.warning.empty()) outcome.warnings.push_back(report.warning);
          },
          run_);
    } catch (const std::exception& error) {
      outcome.error = error.what();
      if (outcome.error.empty()) outcome.error = "?";
    }
    allocator_.disarm();
    return outcome;
  }

  /// Large allocations of an undisturbed run.
  int64_t allocations() {
    allocator_.arm({});
    run();
    return allocator_.count();
  }

  void expect_like(const Outcome& outcome, const Outcome& expected) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.cameras, 1);
    EXPECT_EQ(outcome.tracks, 1);
    EXPECT_EQ(outcome.depth, std::vector<int>(kFrames, 1));
    EXPECT_EQ(outcome.points, std::vector<int>(kFrames, 1));
    for (const auto& [name, tensor] : expected.results) {
      ASSERT_TRUE(outcome.results.contains(name)) << name;
      EXPECT_LE(testing::relative_error(outcome.results.at(name), tensor), kLimit) << name;
    }
  }

  FailingAllocator allocator_;  // first: it goes after all tensors
  WeightFile file_ = WeightFile::open(kNano / "weights.pt");
  TensorSource source_ = testing::source_of(file_);
  fs::path folder_;
  at::Tensor images_, queries_;
  ModelOptions options_;
  RunOptions run_;
  std::optional<Vggt> model_;
};

TEST_P(FaultInjection, RunsGoOnWithASmallerPlan) {
  const Outcome expected = run();
  ASSERT_EQ(expected.results.size(), 7u);
  const int last = plans() - 1;
  const int64_t files = open_files();
  std::vector<int64_t> counts(static_cast<std::size_t>(last) + 1);  // of allocations, by plan
  std::mt19937 random(5);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int64_t failed = 0, warned = 0;
  for (int i = 0; i < runs(); ++i) {
    run_.plans_passed = static_cast<int>(draw(0, last));
    SCOPED_TRACE("run " + std::to_string(i) + " from plan " + std::to_string(run_.plans_passed));
    int64_t& count = counts[static_cast<std::size_t>(run_.plans_passed)];
    if (count == 0) count = allocations();
    std::set<int64_t> faults;
    const int64_t n = draw(1, 3);
    for (int64_t k = 0; k < n; ++k) faults.insert(draw(k * count / n + 1, (k + 1) * count / n));
    allocator_.arm(faults);
    const Outcome outcome = run();
    expect_like(outcome, expected);
    // Streamed attention goes on by itself, and a fault while a plan is taken leads to the next.
    EXPECT_LE(std::ssize(outcome.warnings), allocator_.failed());
    failed += allocator_.failed();
    warned += std::ssize(outcome.warnings);
  }
  EXPECT_GE(failed, runs());
  EXPECT_GE(warned, failed / 2);
  EXPECT_EQ(open_files(), files);
}

// Allocations all over a run, one after another, by the largest plan and by the smallest.
TEST_P(FaultInjection, NoAllocationIsTheOneThatMayNotFail) {
  const Outcome expected = run();
  for (const int plan : {0, plans() - 1}) {
    run_.plans_passed = plan;
    const int64_t count = allocations(), step = std::max<int64_t>(1, count / (runs() / 2 + 1));
    for (int64_t at = 1; at <= count; at += step) {
      SCOPED_TRACE("allocation " + std::to_string(at) + " from plan " + std::to_string(plan));
      allocator_.arm({at});
      expect_like(run(), expected);
    }
  }
}

TEST_P(FaultInjection, WhereNothingIsLeftTheRunEndsWithTheError) {
  const int64_t count = allocations();
  for (const int64_t every : {int64_t{1}, count / 4, count / 2, count - 1}) {
    allocator_.arm({}, every);
    const Outcome outcome = run();
    EXPECT_TRUE(outcome.error.find("can't allocate memory") != std::string::npos ||
                outcome.error.find("bad_alloc") != std::string::npos)
        << outcome.error;
    EXPECT_LE(std::ssize(outcome.warnings), plans() + 2);
    EXPECT_LE(outcome.cameras, 1);
    EXPECT_LE(std::ranges::max(outcome.depth), 1);
  }
}

// A report is no part of the work: what throws there must not make a pass twice.
TEST_P(FaultInjection, AnObserverThatRunsOutOfMemoryRepeatsNothing) {
  const Outcome expected = run();
  int64_t reports = 0, fault = -1;
  const Observer observer = [&](const StageReport& report) {
    if (report.warning.empty() && reports++ == fault) throw std::bad_alloc();
  };
  Outcome first;
  model_->run(testing::provide(images_), queries_, sink(first), observer, run_);
  for (const int64_t count = reports; ++fault < count;) {
    SCOPED_TRACE("report " + std::to_string(fault));
    reports = 0;
    Outcome outcome;
    model_->run(testing::provide(images_), queries_, sink(outcome), observer, run_);
    expect_like(outcome, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, FaultInjection, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "merged" : "exact") +
                                  (std::get<1>(info.param) ? "_scratch" : "");
                         });

}  // namespace
}  // namespace vggt
