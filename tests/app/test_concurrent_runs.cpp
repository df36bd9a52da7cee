// Two runs in one process, at the same time on different threads: each gives, bit for bit, what it gives
// alone.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <opencv2/core/utility.hpp>
#include <string>
#include <thread>
#include <vector>

#include "app/run/model_loader.h"
#include "app/run/reconstruct.h"
#include "tests/support/runs.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

using testing::Files;
using testing::small_model;

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not see how OpenCV's pool is synchronised (tests/tsan.supp).
const bool kOpenCvHasOneThread = (cv::setNumThreads(1), true);
#endif

class ConcurrentRuns : public ::testing::Test {
 protected:
  ConcurrentRuns() {
    std::string name = (fs::temp_directory_path() / "vggt_concurrent_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~ConcurrentRuns() override { fs::remove_all(dir_); }

  /// What a run writes, but its report: that holds seconds.
  Files run(Options options, const std::string& folder) const {
    options.device = "cpu";
    options.out = (dir_ / folder).string() + "/";
    options.picture = (dir_ / folder / "p.png").string();
    options.save_predictions = (dir_ / folder / "p.safetensors").string();
    reconstruct(plan_run(options), {});
    return testing::files_in(dir_ / folder);
  }

  /// Runs all at once, and each alone before.
  void expect_equal(const std::vector<Options>& runs) const {
    std::vector<Files> alone;
    for (std::size_t i = 0; i < runs.size(); ++i) alone.push_back(run(runs[i], "alone" + std::to_string(i)));
    std::vector<std::future<Files>> together;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      together.push_back(
          std::async(std::launch::async, [&, i] { return run(runs[i], "together" + std::to_string(i)); }));
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Files files = together[i].get();
      EXPECT_EQ(files.size(), 5u);
      for (const auto& [name, bytes] : alone[i]) {
        EXPECT_FALSE(bytes.empty()) << name;
        EXPECT_TRUE(files.contains(name) && files.at(name) == bytes) << "run " << i << ": " << name;
      }
    }
  }

  fs::path dir_;
};

/// The golden model's points, thinned by filters that hold the cloud.
Options filtered_golden_model() {
  Options options = testing::golden_model();
  options.voxel = 0.05;
  options.outliers = "5,2";
  return options;
}

TEST_F(ConcurrentRuns, OfDifferentModelsAndFrames) {
  expect_equal({small_model(), filtered_golden_model()});
}

TEST_F(ConcurrentRuns, WithTracks) {
  std::ofstream(dir_ / "q.csv") << "20,20\n60.5,100\n";
  Options tracks = filtered_golden_model();
  tracks.frames = VGGT_SOURCE_DIR "/examples/room";
  tracks.max_frames = 2;
  tracks.width = 168;
  tracks.query_points = (dir_ / "q.csv").string();
  expect_equal({tracks, small_model(), tracks});
}

TEST_F(ConcurrentRuns, OfOneModelWithOtherFramesAndOptions) {
  Options other = small_model();
  other.frames = VGGT_SOURCE_DIR "/examples/room/05.jpg";
  other.width = 56;
  other.conf_percentile = 10;
  expect_equal({small_model(), other, small_model()});
}

/// The network's camera and depth of random frames, in one tensor.
at::Tensor network_output(const Vggt& model, int64_t frames, uint64_t seed, at::ScalarType type) {
  const at::Tensor images = at::rand({frames, 3, 42, 56}, at::make_generator<at::CPUGeneratorImpl>(seed),
                                     at::kDouble);  // [S,3,H,W]
  const FrameProvider provider{
      frames, 42, 56, [&](int64_t first, int64_t count) { return images.narrow(0, first, count).to(type); }};
  std::vector<at::Tensor> parts;
  Sink sink;
  sink.cameras = [&](const CameraPrediction& c) { parts.push_back(c.pose_enc.to(at::kDouble).flatten()); };
  sink.depth = [&](const DensePrediction& d) { parts.push_back(d.depth.to(at::kDouble).flatten()); };
  model.run(provider, {}, sink);
  return at::cat(parts);
}

// One loaded model serves several threads, beside one in another precision.
TEST(ConcurrentModels, OneModelOnSeveralThreadsAndAnotherPrecision) {
  const WeightFile weights = WeightFile::open(VGGT_FIXTURES "/golden/nano/weights.pt");
  const Config config = config_of(weights);
  ModelOptions options;
  options.heads.camera = options.heads.depth = true;
  const Vggt single(config, source_of(weights), options);
  options.precision = Precision::fp64;
  const Vggt exact(config, source_of(weights), options);
  const std::vector<at::Tensor> alone = {network_output(single, 2, 1, at::kFloat),
                                         network_output(single, 3, 2, at::kFloat),
                                         network_output(exact, 2, 1, at::kDouble)};
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto a = std::async(std::launch::async, [&] { return network_output(single, 2, 1, at::kFloat); });
    auto b = std::async(std::launch::async, [&] { return network_output(single, 3, 2, at::kFloat); });
    auto c = std::async(std::launch::async, [&] { return network_output(exact, 2, 1, at::kDouble); });
    EXPECT_TRUE(at::equal(a.get(), alone[0]));
    EXPECT_TRUE(at::equal(b.get(), alone[1]));
    EXPECT_TRUE(at::equal(c.get(), alone[2]));
  }
}

// One of two runs is asked to stop: the other goes on.
TEST_F(ConcurrentRuns, StoppingOneLeavesTheOther) {
  const Files alone = run(filtered_golden_model(), "alone");
  Options options = small_model();
  options.device = "cpu";
  options.out = (dir_ / "stopped").string() + "/";
  std::atomic<bool> stop = false;
  Events events;
  events.stop = [&] { return stop.load(); };
  events.on_progress = [&](const std::string& stage, const std::string&, int64_t, int64_t) {
    if (stage == "aggregator") stop = true;
  };
  auto stopped = std::async(std::launch::async, [&] { reconstruct(plan_run(options), events); });
  EXPECT_TRUE(run(filtered_golden_model(), "other") == alone);
  EXPECT_THROW(stopped.get(), Stopped);
  EXPECT_FALSE(fs::exists(dir_ / "stopped"));
}

// What one run warns of is not told to another.
TEST_F(ConcurrentRuns, WarningsStayWithTheirRun) {
  std::ofstream(dir_ / "spoilt.png") << "no image";
  std::ofstream(dir_ / "list.txt") << VGGT_SOURCE_DIR "/examples/room/00.jpg\n"
                                   << (dir_ / "spoilt.png").string();
  Options bad = small_model(), good = small_model();
  bad.frames = (dir_ / "list.txt").string();
  std::vector<std::future<Reconstruction>> results;
  for (const auto& [options, folder] : {std::pair(bad, "bad"), std::pair(good, "good")}) {
    results.push_back(std::async(std::launch::async, [this, options = options, folder = folder]() mutable {
      options.device = "cpu";
      options.out = (dir_ / folder).string() + "/";
      return reconstruct(plan_run(options), {});
    }));
  }
  EXPECT_EQ(results[0].get().report.warnings.size(), 1u);
  const Reconstruction other = results[1].get();
  EXPECT_TRUE(other.report.warnings.empty());
  EXPECT_EQ(other.cameras.size(), 3u);
  EXPECT_EQ(other.written.size(), 4u);
}

}  // namespace
}  // namespace vggt
