// One scene on several ranks, as threads: every stage as on one rank.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <numeric>
#include <thread>

#include "model/random_weights.h"
#include "model/ranks/shares.h"
#include "model/ranks/thread_group.h"
#include "tests/support/golden.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

using testing::Tensors;

// Of ‖difference‖ / ‖stage‖, and of the largest difference: the trunk stays below 2e-7, one step of its
// largest numbers, but depth and points are exponential functions of what their head makes of it: up to
// 1.005e-6 on a Xeon, by whose products numbers of rows round otherwise.
constexpr double kStageLimit = 1e-6, kLargestOfMaps = 2e-6, kLimitOfTracks = 1e-5;

/// Eight heads: 2, 4 and 8 ranks divide them, 3 and 5 do not; more than 8 leave some without.
Config small_config() {
  Config config;
  config.img_size = 56;
  config.embed_dim = 128;
  config.num_heads = 8;
  config.depth = 4;
  config.vit_depth = 1;
  config.vit_num_heads = 2;
  config.camera_num_heads = 2;
  config.camera_trunk_depth = 1;
  config.dpt_features = 16;
  config.dpt_out_channels = {8, 16, 16, 16};
  config.intermediate_layers = {0, 1, 2, 3};
  config.track_features = 16;
  config.track_hidden = 48;
  config.track_depth = 1;
  config.track_corr_levels = 2;
  return config;
}

double norm_error(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((got.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

struct Case {
  int64_t frames = 1, ranks = 1;
  RunOptions run = {};
};

class Ranks : public ::testing::Test {
 protected:
  Ranks() {
    at::set_num_threads(1);
    const ModelOptions options{.heads = {.camera = true, .depth = true, .points = true}};
    model_.emplace(small_config(), random_weights(small_config(), options.heads, 5), options);
    const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(3);
    images_ = at::rand({17, 3, 42, 56}, random);
    queries_ = at::rand({3, 2}, random) * 20;
  }

  at::Tensor images(int64_t frames) const { return images_.narrow(0, 0, frames); }

  static void keep_part(Tensors& to, const std::string& name, int64_t frames, int64_t first,
                        const at::Tensor& part) {
    at::Tensor& all = to[name];
    if (!all.defined()) {
      std::vector<int64_t> shape = part.sizes().vec();
      shape[0] = frames;
      all = at::full(shape, std::nan(""), part.options());
    }
    all.narrow(0, first, part.size(0)).copy_(part);
  }

  static Sink sink(Tensors& to, int64_t frames) {
    Sink sink;
    sink.cameras = [&to](const CameraPrediction& p) { to["pose_enc"] = p.pose_enc; };
    sink.depth = [&to, frames](const DensePrediction& p) {
      keep_part(to, "depth", frames, p.first_frame, p.depth);
      keep_part(to, "depth_conf", frames, p.first_frame, p.depth_conf);
    };
    sink.points = [&to, frames](const DensePrediction& p) {
      keep_part(to, "world_points", frames, p.first_frame, p.world_points);
      keep_part(to, "world_points_conf", frames, p.first_frame, p.world_points_conf);
    };
    sink.tracks = [&to](const TrackPrediction& p) {
      to["track"] = p.track;
      to["track_vis"] = p.track_vis;
      to["track_conf"] = p.track_conf;
    };
    return sink;
  }

  /// The trunk's stages, with one entry a frame.
  static Observer observer(Tensors& to, int64_t frames) {
    return [&to, frames](const StageReport& report) {
      if (!report.tensor.defined() || (report.stage != "patch_embed" && report.stage != "aggregator")) return;
      to[report.name] = report.tensor.view({frames, -1}).clone();
    };
  }

  Tensors on_one(const Case& c) const {
    Tensors got;
    model_->run(testing::provide(images(c.frames)), queries_, sink(got, c.frames), observer(got, c.frames),
                c.run);
    return got;
  }

  /// What rank 0 hands out, and the trunk's stages of all ranks one after another.
  Tensors on_ranks(const Case& c) const {
    auto groups = make_thread_groups(c.ranks);
    const Shares shares{c.frames, c.ranks};
    Tensors got;
    std::vector<Tensors> stages(static_cast<size_t>(c.ranks));
    std::vector<std::exception_ptr> errors(static_cast<size_t>(c.ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < c.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto i = static_cast<size_t>(rank);
        try {
          at::set_num_threads(1);
          RunOptions run = c.run;
          run.group = groups[i].get();
          FrameProvider frames = testing::provide(images(c.frames));
          if (rank > 0) frames.get = nullptr;
          if (run.budget.scratch) run.budget.scratch = *run.budget.scratch / std::to_string(rank);
          model_->run(frames, queries_, rank == 0 ? sink(got, c.frames) : Sink(),
                      observer(stages[i], shares.count(rank)), run);
        } catch (...) {
          errors[i] = std::current_exception();
        }
        groups[i].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (const auto& [name, first] : stages[0]) {
      std::vector<at::Tensor> parts;
      for (Tensors& of_rank : stages) parts.push_back(of_rank.at(name));
      got[name] = at::cat(parts);
    }
    return got;
  }

  void expect_equal(const Case& c) const {
    SCOPED_TRACE(std::to_string(c.frames) + " frames on " + std::to_string(c.ranks) + " ranks");
    const Tensors one = on_one(c), several = on_ranks(c);
    ASSERT_TRUE(one.contains("depth") && one.contains("pose_enc") && one.contains("world_points"));
    for (const auto& [name, expected] : one) {
      ASSERT_TRUE(several.contains(name)) << name;
      ASSERT_EQ(several.at(name).sizes(), expected.sizes()) << name;
      EXPECT_LE(testing::relative_error(several.at(name), expected),
                name == "world_points" || name == "depth" ? kLargestOfMaps : kStageLimit)
          << name;
      EXPECT_LE(norm_error(several.at(name), expected), kStageLimit) << name;
    }
    EXPECT_EQ(one.size(), several.size());
  }

  std::optional<Vggt> model_;
  at::Tensor images_, queries_;
};

TEST_F(Ranks, ExactAttentionEqualsOneRank) {
  for (const int64_t ranks : {2, 3, 4, 5, 8}) {
    for (const int64_t frames : {ranks, ranks + 1, int64_t{11}, int64_t{17}}) expect_equal({frames, ranks});
  }
  expect_equal({1, 1});
}

TEST_F(Ranks, MergedAttentionEqualsOneRank) {
  for (const int64_t ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t frames : {ranks, int64_t{17}})
      expect_equal({frames, ranks, {.merge = MergeOptions{.refresh = 1 + ranks % 2}}});
  }
  expect_equal({9, 2, {.merge = MergeOptions{.start = 2, .protect = 0}}});
  expect_equal({9, 3, {.merge = MergeOptions{.metric = 32}}});
}

// On a GPU a pass goes through a share in several pieces, and one is exchanged beside the products of the
// next.
TEST_F(Ranks, SeveralPiecesAPassEqualOneRank) {
  Config config = small_config();  // smaller still, for so many tokens
  config.embed_dim = 32;
  config.num_heads = 4;
  config.depth = 1;
  config.intermediate_layers = {0, 0, 0, 0};
  const ModelOptions options{.heads = {.camera = true, .depth = true, .points = true}};
  model_.emplace(config, random_weights(config, options.heads, 5), options);
  images_ = at::rand({17, 3, 392, 518}, at::make_generator<at::CPUGeneratorImpl>(3));
  for (const bool merged : {false, true}) {
    Case c{17, 2};
    if (merged) c.run.merge = MergeOptions{};
    MemoryRequest request = memory_request(config, options);
    request.frames = c.frames;
    request.height = images_.size(2);
    request.width = images_.size(3);
    request.merge = c.run.merge;
    request.ranks = c.ranks;
    const auto schedule = [&] { return plan_memory(request, c.run.plans_passed).schedule; };
    while (schedule().pass_frames > 8) ++c.run.plans_passed;
    ASSERT_EQ(schedule().qkv, Place::device);
    expect_equal(c);
  }
}

TEST_F(Ranks, MoreRanksThanHeads) {
  expect_equal({11, 10, {.merge = MergeOptions{}}});
  expect_equal({11, 10});
}

// Everything that a plan can put elsewhere lies in files.
TEST_F(Ranks, TensorsInFilesEqualOneRank) {
  const auto folder = std::filesystem::temp_directory_path() / ("ranks" + std::to_string(::getpid()));
  for (int rank = 0; rank < 5; ++rank) std::filesystem::create_directories(folder / std::to_string(rank));
  for (const bool merged : {false, true}) {
    for (const int64_t ranks : {2, 5}) {
      Case c{9, ranks};
      if (merged) c.run.merge = MergeOptions{};
      c.run.budget.scratch = folder;
      c.run.plans_passed = 1000;  // the smallest that fits
      while (true) {
        MemoryRequest request = memory_request(small_config(), {.heads = {.camera = true, .depth = true}});
        request.frames = c.frames;
        request.height = images_.size(2);
        request.width = images_.size(3);
        request.ranks = ranks;
        request.merge = c.run.merge;
        request.budget = c.run.budget;
        const MemoryPlan plan = plan_memory(request, c.run.plans_passed);
        if (plan.fits) {
          EXPECT_NE(plan.schedule.qkv, Place::device);
          break;
        }
        --c.run.plans_passed;
      }
      expect_equal(c);
    }
  }
  std::filesystem::remove_all(folder);
}

// Of random weights the tracker amplifies rounding: PyTorch's tensors of trained ones instead.
TEST_F(Ranks, TracksEqualThoseOfOneRank) {
  const auto folder = std::filesystem::path(VGGT_FIXTURES) / "golden/nano";
  const WeightFile file = WeightFile::open(folder / "weights.pt");
  const TensorSource source = testing::source_of(file);
  const Tensors golden = testing::load_tensors(folder / "frames2_42x56.safetensors");
  const Heads heads = heads_in(source.shapes);
  ASSERT_TRUE(heads.tracks);
  model_.emplace(read_config(file.config_json(), source.shapes), source, ModelOptions{.heads = heads});
  images_ = golden.at("images");
  queries_ = golden.at("query_points");
  const Tensors several = on_ranks({2, 2});
  for (const char* name : {"track_vis", "track_conf", "depth"})
    EXPECT_LE(testing::relative_error(several.at(name), golden.at(name)), kLimitOfTracks) << name;

  images_ = at::cat({images_, images_.flip({3}), images_.flip({2}), images_.flip({1})});  // 8 frames
  for (const auto& [frames, ranks] : {std::pair<int64_t, int64_t>{8, 2}, {7, 3}, {5, 5}}) {
    const Tensors one = on_one({frames, 1}), of_ranks = on_ranks({frames, ranks});
    SCOPED_TRACE(std::to_string(frames) + " frames on " + std::to_string(ranks) + " ranks");
    EXPECT_LE(testing::relative_error(of_ranks.at("track"), one.at("track")), kLargestOfMaps);
    EXPECT_LE(norm_error(of_ranks.at("track"), one.at("track")), kStageLimit);
    for (const char* name : {"track_vis", "track_conf"})  // which amplify the trunk's rounding, tenfold here
      EXPECT_LE(testing::relative_error(of_ranks.at(name), one.at(name)), kLimitOfTracks) << name;
  }
}

TEST_F(Ranks, FewerFramesThanRanksAreRefused) {
  EXPECT_THROW(on_ranks({2, 3}), std::invalid_argument);
}

TEST_F(Ranks, ALostRankEndsTheOthers) {
  auto groups = make_thread_groups(3);
  groups.pop_back();
  RunOptions run;
  run.group = groups[1].get();
  EXPECT_THROW(model_->run(testing::provide(images(5)), queries_, {}, {}, run), RankLost);
}

TEST_F(Ranks, AnErrorOfOneRankIsTheRuns) {
  auto groups = make_thread_groups(2);
  std::atomic<int> lost = 0;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      RunOptions run;
      run.group = groups[rank].get();
      FrameProvider frames = testing::provide(images(4));
      if (rank == 0)
        frames.get = [](int64_t, int64_t) -> at::Tensor { throw std::runtime_error("cannot be read"); };
      EXPECT_THROW(model_->run(frames, queries_, {}, {}, run), std::runtime_error);
      groups[rank].reset();
      ++lost;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 2);
}

}  // namespace
}  // namespace vggt
