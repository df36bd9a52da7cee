// A run that was stopped goes on from its checkpoint: bit for bit as if it had not been stopped, and without
// repeating a layer that was finished.
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "model/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

const fs::path kNano = fs::path(VGGT_FIXTURES) / "golden/nano";

struct Killed {};

/// What a run gave, and which blocks of the aggregator it began.
struct Outcome {
  Tensors results;
  std::vector<int64_t> layers;
  bool embedded = false;
};

enum class Kind { exact, merged, files };

class Checkpoints : public ::testing::TestWithParam<std::tuple<const char*, Kind>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    folder_ = fs::temp_directory_path() / ("checkpoints" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "state");
    fs::create_directories(folder_ / "scratch");
    images_ = at::rand({7, 3, 42, 56}, at::make_generator<at::CPUGeneratorImpl>(3));
    options_.device = device();
    options_.heads = {.camera = true, .depth = true, .points = true};
    if (kind() == Kind::merged) run_.merge = MergeOptions{.start = 1};
    if (kind() == Kind::files) place_in_files();
    model_.emplace(config(), source_, options_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  at::Device device() const { return at::Device(std::get<0>(GetParam())); }
  Kind kind() const { return std::get<1>(GetParam()); }
  Config config() const { return read_config(file_.config_json(), source_.shapes); }
  void place_in_files() {
    MemoryRequest request = memory_request(config(), options_);
    request.frames = images_.size(0);
    request.height = images_.size(2);
    request.width = images_.size(3);
    request.budget.scratch = run_.budget.scratch = folder_ / "scratch";
    if (device().is_cuda()) request.budget.host = run_.budget.host = 0;  // or all would lie on the host
    for (;; ++run_.plans_passed) {
      const Schedule schedule = plan_memory(request, run_.plans_passed).schedule;
      if (schedule.residual == Place::file && schedule.maps == Place::file) break;
      ASSERT_LT(run_.plans_passed, 1000);
    }
  }
  fs::path state(const std::string& name = "") const { return folder_ / "state" / name; }
  RunOptions keeping(double seconds = 0) const {
    RunOptions options = run_;
    options.checkpoints = CheckpointOptions{state(), seconds};
    return options;
  }

  /// Runs until a stage reports that `stop_at` of it is done.
  Outcome run(const RunOptions& options, const std::string& stage = "", int64_t stop_at = 0) const {
    Outcome outcome;
    const auto put = [&](const std::string& name, const at::Tensor& part, int64_t first) {
      outcome.results[name + std::to_string(first)] = part.clone();
    };
    Sink sink;
    sink.cameras = [&](const CameraPrediction& p) { put("pose", p.pose_enc, 0); };
    sink.depth = [&](const DensePrediction& p) {
      put("depth", p.depth, p.first_frame);
      put("depth_conf", p.depth_conf, p.first_frame);
    };
    sink.points = [&](const DensePrediction& p) { put("points", p.world_points, p.first_frame); };
    uintmax_t watched = 0;
    const auto observe = [&](const StageReport& report) {
      for (const auto& file : fs::directory_iterator(state())) watched += file.file_size();
      most_kept_ = std::max(most_kept_, std::exchange(watched, 0));
      if (report.total == 0) return;
      if (report.stage == stage && report.done == stop_at) throw Killed();
      if (report.stage == "patch_embed") outcome.embedded = true;
      if (report.stage == "aggregator" && report.done < report.total) outcome.layers.push_back(report.done);
    };
    try {
      model_->run(testing::provide(images_), {}, sink, observe, options);
    } catch (const Killed&) {
      outcome.results.clear();
    }
    return outcome;
  }
  void expect_equal(const Tensors& got, const Tensors& expected) const {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::equal(got.at(name), tensor)) << name;
  }
  void damage(const std::string& name) const {
    std::fstream file(state(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(100);
    const char old = static_cast<char>(file.get());
    file.seekp(100);
    file.put(static_cast<char>(old ^ 1));
  }

  WeightFile file_ = WeightFile::open(kNano / "weights.pt");
  TensorSource source_ = testing::source_of(file_);
  fs::path folder_;
  at::Tensor images_;
  ModelOptions options_;
  RunOptions run_;
  std::optional<Vggt> model_;
  mutable uintmax_t most_kept_ = 0;  // bytes of the checkpoint, at a report of any stage
};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST_P(Checkpoints, ARunGoesOnAfterTheLayersThatAreFinished) {
  const Outcome whole = run(run_);
  const auto depth = static_cast<int64_t>(whole.layers.size());
  ASSERT_GE(depth, 4);
  for (int64_t stop = 1; stop < depth; ++stop) {
    fs::remove_all(state());
    fs::create_directories(state());
    run(keeping(), "aggregator", stop);
    const Outcome rest = run(keeping());
    EXPECT_FALSE(rest.embedded);
    ASSERT_EQ(static_cast<int64_t>(rest.layers.size()), depth - stop);
    EXPECT_EQ(rest.layers.front(), stop);
    expect_equal(rest.results, whole.results);
  }
}

TEST_P(Checkpoints, TheirFilesArePlanned) {
  MemoryRequest request = memory_request(config(), options_);
  request.frames = images_.size(0);
  request.height = images_.size(2);
  request.width = images_.size(3);
  request.merge = run_.merge;
  request.budget = run_.budget;
  const int64_t without = plan_memory(request, run_.plans_passed).scratch_bytes;
  request.checkpoints = true;
  const auto planned =
      static_cast<uintmax_t>(plan_memory(request, run_.plans_passed).scratch_bytes - without);
  run(keeping());
  EXPECT_LE(most_kept_, planned);
  EXPECT_GE(most_kept_, planned / 3);  // the plan counts the state that is replaced, too
}

TEST_P(Checkpoints, AfterTheTrunkOnlyHeadsRunAgain) {
  const Outcome whole = run(run_);
  run(keeping(60), "depth_head", 0);
  EXPECT_FALSE(names_in(state()).contains("residual-1"));
  const Outcome rest = run(keeping(60));
  EXPECT_FALSE(rest.embedded);
  EXPECT_TRUE(rest.layers.empty());
  expect_equal(rest.results, whole.results);
}

// Several times stopped, with nothing left behind of the earlier states.
TEST_P(Checkpoints, ARunMayBeStoppedOftenAndKeepsOneState) {
  const Outcome whole = run(run_);
  run(keeping(), "aggregator", 1);
  run(keeping(), "aggregator", 2);
  run(keeping(), "aggregator", 3);
  int residuals = 0;
  for (const std::string& name : names_in(state())) residuals += name.starts_with("residual");
  EXPECT_EQ(residuals, 1);
  expect_equal(run(keeping()).results, whole.results);
}

// Where one matching serves several layers, a run goes on at one that matches anew.
TEST_P(Checkpoints, AMatchingOfSeveralLayersIsMadeAgainWithItsFirst) {
  if (kind() != Kind::merged) GTEST_SKIP();
  run_.merge->refresh = 2;  // layers 1 and 2, 3 and 4, ...
  const Outcome whole = run(run_);
  run(keeping(), "aggregator", 2);
  const Outcome rest = run(keeping());
  ASSERT_FALSE(rest.layers.empty());
  EXPECT_EQ(rest.layers.front(), 1);
  expect_equal(rest.results, whole.results);
}

TEST_P(Checkpoints, InsideTheTrunkTheyWaitForTheirTime) {
  run(keeping(3600), "aggregator", 3);
  EXPECT_TRUE(names_in(state()).empty());
  EXPECT_FALSE(Checkpoint::is_in(state()));
  EXPECT_EQ(Checkpoint::layers_in(state()), 0);
}

TEST_P(Checkpoints, DamageIsRefused) {
  run(keeping(), "aggregator", 3);
  ASSERT_TRUE(Checkpoint::is_in(state()));
  EXPECT_EQ(Checkpoint::layers_in(state()), 3);
  const fs::path copy = folder_ / "copy";
  fs::copy(state(), copy);
  for (const std::string& name : names_in(copy)) {
    const auto refused = [&](const char* what) {
      const std::string said = refusal([&] { run(keeping()); });
      EXPECT_NE(said.find(what), std::string::npos) << said;
      EXPECT_NE(said.find(name), std::string::npos) << said;
      fs::remove_all(state());
      fs::copy(copy, state());
    };
    damage(name);
    refused("damaged");
    fs::resize_file(state(name), fs::file_size(state(name)) - 2);
    refused(name == "checkpoint.json" ? "damaged" : "bytes, got");
    if (name == "checkpoint.json") continue;
    fs::remove(state(name));
    refused("missing");
  }
  expect_equal(run(keeping()).results, run(run_).results);
}

TEST_P(Checkpoints, AnotherRunsAreRefused) {
  run(keeping(), "aggregator", 3);
  RunOptions other = keeping();
  other.merge = MergeOptions{.start = 2};
  EXPECT_NE(refusal([&] { run(other); }).find("of another run"), std::string::npos);
  images_ = images_.narrow(0, 0, 6);
  EXPECT_NE(refusal([&] { run(keeping()); }).find("of another run"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Runs, Checkpoints,
                         ::testing::Combine(::testing::Values("cpu", "cuda:0"),
                                            ::testing::Values(Kind::exact, Kind::merged, Kind::files)),
                         [](const auto& info) {
                           const Kind kind = std::get<1>(info.param);
                           return std::string(std::get<0>(info.param)).substr(0, 3) +
                                  (kind == Kind::exact    ? "_exact"
                                   : kind == Kind::merged ? "_merged"
                                                          : "_files");
                         });

}  // namespace
}  // namespace vggt
