// Runs under a byte budget: every plan gives what the run without a budget gives, to rounding.
#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/support/golden.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

const fs::path kNano = fs::path(VGGT_FIXTURES) / "golden/nano";
constexpr double kLimit = 1e-5;  // products of other numbers of rows round differently

class Budget : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
    folder_ = fs::temp_directory_path() / ("budget" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    images_ = at::rand({7, 3, 42, 56}, at::make_generator<at::CPUGeneratorImpl>(3));
    options_.device = device();
    options_.heads = {.camera = true, .depth = true, .points = true};
    if (std::get<1>(GetParam())) options_.merge = MergeOptions{};
  }
  void TearDown() override { fs::remove_all(folder_); }

  at::Device device() const { return at::Device(std::get<0>(GetParam())); }
  Config config() const { return read_config(file_.config_json(), source_.shapes); }
  MemoryRequest request(const ModelOptions& options) const {
    MemoryRequest r = memory_request(config(), options);
    r.frames = images_.size(0);
    r.height = images_.size(2);
    r.width = images_.size(3);
    return r;
  }
  Tensors run(const ModelOptions& options) const {
    const Tensors all = testing::run_all(Vggt(config(), source_, options), images_, {});
    Tensors results;  // what the sink gets: stages are reported only where their tensors are resident
    for (const auto& [name, tensor] : all) {
      if (name.find('.') == std::string::npos && name != "patch_tokens") results[name] = tensor;
    }
    return results;
  }

  WeightFile file_ = WeightFile::open(kNano / "weights.pt");
  TensorSource source_ = testing::source_of(file_);
  fs::path folder_;
  at::Tensor images_;
  ModelOptions options_;
};

TEST_P(Budget, EveryPlanGivesTheSameScene) {
  const Tensors expected = run(options_);
  ASSERT_EQ(expected.size(), 7u);
  ModelOptions options = options_;
  options.weights_on_host = device().is_cuda();
  options.budget.scratch = folder_;
  std::set<std::string> plans;
  for (options.plans_passed = 0;; ++options.plans_passed) {
    const MemoryPlan plan = plan_memory(request(options), options.plans_passed);
    if (!plan.fits) break;
    if (!plans.insert(plan_text(plan)).second) continue;
    for (const auto& [name, tensor] : run(options)) {
      EXPECT_LE(testing::relative_error(tensor, expected.at(name)), kLimit)
          << name << ", " << plan_text(plan);
    }
  }
  EXPECT_GE(plans.size(), 4u);
}

TEST_P(Budget, HeadsThatBeginEarlyChangeNothing) {
  for (const bool in_bf16 : {false, true}) {
    ModelOptions options = options_;
    options.heads_in_bf16 = in_bf16;
    const Tensors expected = run(options);
    const MemoryPlan plan = plan_memory(request(options));
    options.begin_heads = true;
    for (const auto& [name, tensor] : run(options))
      EXPECT_LE(testing::relative_error(tensor, expected.at(name)), kLimit) << name;
    const int64_t more = plan_memory(request(options)).peak_bytes() - plan.peak_bytes();
    EXPECT_EQ(more > 0, device().is_cuda());
  }
}

// A budget of exactly what a plan takes is kept by that plan or a faster one.
TEST_P(Budget, APlanThatFitsIsFound) {
  ModelOptions options = options_;
  options.weights_on_host = device().is_cuda();
  options.budget.scratch = folder_;
  MemoryRequest r = request(options);
  r.frames = 3000;
  int plans = 0;
  for (int n = 0;; ++n, ++plans) {
    r.budget.device = r.budget.host = MemoryBudget::kUnlimited;
    const MemoryPlan plan = plan_memory(r, n);
    if (!plan.fits) break;
    const auto needed = [&](const MemoryPlan& p) { return p.peak_bytes() + (r.gpu ? 0 : p.host_bytes); };
    (r.gpu ? r.budget.device : r.budget.host) = needed(plan);
    const MemoryPlan chosen = plan_memory(r);
    EXPECT_TRUE(chosen.fits) << plan_text(plan);
    EXPECT_LE(needed(chosen), needed(plan));
  }
  EXPECT_GE(plans, 4);
}

TEST_P(Budget, ATooSmallOneIsRefusedWithWhatIsNeeded) {
  ModelOptions options = options_;
  options.budget = {.device = 1000, .host = 1000, .scratch = folder_};
  const Vggt model(config(), source_, options);
  const std::string said = refusal([&] { model.run(testing::provide(images_), {}, {}, {}); });
  EXPECT_TRUE(said.find("7 frames need at least") != std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Runs, Budget,
                         ::testing::Combine(::testing::Values("cpu", "cuda:0"), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)).substr(0, 3) +
                                  (std::get<1>(info.param) ? "_merged" : "");
                         });

}  // namespace
}  // namespace vggt
