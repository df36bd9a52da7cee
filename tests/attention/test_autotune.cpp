// Plans by measurement: classes of sizes, what is worth measuring, the choice, the cache's text. Timers are
// made up but for the last tests, which need a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attention/cuda/tensor_tile.h"
#include "attention/tune/autotune.h"
#include "attention/tune/plan_cache.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "attention/cuda/cuda.h"
#include "attention/tune/tuned_plan.h"
#include "tests/support/attention_cases.h"
#endif

namespace {

using vggt::AttentionTuner;
using vggt::AttentionVariant;
using vggt::CudaDevice;
using vggt::CudaElement;
using vggt::CudaKernel;
using vggt::CudaPlan;
using vggt::CudaSizes;
using vggt::TunedGpu;
using vggt::TunedPlans;
using vggt::TuneKey;

constexpr int64_t kKilo = 1024;
constexpr CudaDevice kH200{90, 132, 227 * kKilo, 228 * kKilo, true, true, true};
constexpr CudaDevice kTuring{75, 40, 64 * kKilo, 64 * kKilo, true};
constexpr CudaSizes kFrame{16, 1041, 1041, 64};

CudaPlan plan(int partitions) {
  return {CudaKernel::strict, {128, 64}, partitions};
}

// ---- classes

TEST(SizeClass, IsTheSmallestOfItsMembersAndFinerThanPowersOfTwo) {
  std::set<int64_t> classes;
  for (int64_t n = 0; n <= 4096; ++n) {
    const int64_t c = vggt::size_class(n);
    EXPECT_LE(c, n);
    EXPECT_LE(8 * (n - c), n) << n;
    EXPECT_EQ(vggt::size_class(c), c);
    EXPECT_GE(c, vggt::size_class(std::max<int64_t>(0, n - 1))) << n;
    EXPECT_TRUE(n >= 16 || c == n) << n;
    classes.insert(c);
  }
  EXPECT_EQ(classes.size(), 16u + 8u * 8u + 1u);  // 0..15, the octaves from 16 to 2048, 4096
  EXPECT_EQ(vggt::size_class(-1), 0);
  EXPECT_LE(vggt::size_class(std::numeric_limits<int64_t>::max()), std::numeric_limits<int64_t>::max());
}

TEST(SizeClass, KeysTellApartWhatRunsAnotherKernel) {
  const auto key = [](AttentionVariant variant, CudaElement type, CudaSizes sizes) {
    return vggt::tune_key(variant, type, sizes);
  };
  const TuneKey base = key(AttentionVariant::strict, CudaElement::fp32, kFrame);
  EXPECT_EQ(base, key(AttentionVariant::strict, CudaElement::fp32, {16, 1040, 1100, 12}));
  EXPECT_NE(base, key(AttentionVariant::split, CudaElement::fp32, kFrame));
  EXPECT_NE(base, key(AttentionVariant::strict, CudaElement::bf16, kFrame));
  EXPECT_NE(base, key(AttentionVariant::strict, CudaElement::fp32, {16, 1041, 1041, 65}));
  EXPECT_NE(base, key(AttentionVariant::strict, CudaElement::fp32, {18, 1041, 1041, 64}));
  EXPECT_NE(base, key(AttentionVariant::strict, CudaElement::fp32, {16, 2000, 1041, 64}));
  EXPECT_NE(base, key(AttentionVariant::strict, CudaElement::fp32, {16, 1041, 2000, 64}));
  TuneKey beside_libtorch = base;
  beside_libtorch.libtorch = true;
  EXPECT_NE(base, beside_libtorch);
}

// ---- what is worth measuring

TEST(Alternatives, AreThePlanThenItsOwnTileThenTheOthers) {
  for (auto [variant, type] : {std::pair(AttentionVariant::strict, CudaElement::fp32),
                               std::pair(AttentionVariant::split, CudaElement::fp32),
                               std::pair(AttentionVariant::turbo, CudaElement::fp32),
                               std::pair(AttentionVariant::half, CudaElement::bf16)}) {
    for (int64_t dim : {64, 128}) {
      for (int64_t keys : {1, 64, 1041, 50000}) {
        const CudaSizes sizes{16, 1041, keys, dim};
        const CudaPlan policy = choose_cuda_plan(variant, type, sizes, kH200);
        const auto plans = alternative_plans(policy, sizes, kH200);
        ASSERT_FALSE(plans.empty());
        EXPECT_EQ(plans.front(), policy);
        bool left_own_tile = false;
        for (std::size_t i = 0; i < plans.size(); ++i) {
          EXPECT_EQ(variant_of(plans[i].kernel), variant);
          EXPECT_EQ(std::count(plans.begin(), plans.end(), plans[i]), 1);
          EXPECT_GE(plans[i].partitions, 1);
          EXPECT_LE(plans[i].partitions,
                    std::max<int64_t>(1, (keys + plans[i].tile.keys - 1) / plans[i].tile.keys));
          EXPECT_LE(plans[i].partitions, vggt::kMostPartitions);
          left_own_tile |= plans[i].tile != policy.tile;
          EXPECT_EQ(left_own_tile, plans[i].tile != policy.tile);
          EXPECT_EQ(fitted_plan(plans[i], sizes, kH200), plans[i]);
        }
        EXPECT_TRUE(left_own_tile);
      }
    }
  }
}

TEST(Alternatives, KeepToTheDeviceAndTheWorkspace) {
  const CudaPlan small = choose_cuda_plan(AttentionVariant::strict, CudaElement::fp32, kFrame, kTuring);
  for (const CudaPlan& one : alternative_plans(small, kFrame, kTuring)) EXPECT_EQ(one.tile, small.tile);
  const CudaSizes large{16, 416400, 416400, 64};
  for (const CudaPlan& one : alternative_plans(plan(1), large, kH200)) EXPECT_EQ(one.partitions, 1);
  constexpr int64_t kFew = 160'000'000;  // bytes
  for (int64_t queries = 100; queries < 100'000; queries *= 2) {
    for (const CudaPlan& one : alternative_plans(plan(1), {16, queries, queries, 64}, kH200)) {
      if (one.partitions == 1) continue;
      EXPECT_LT(16 * queries * one.partitions * (64 + 2) * 4, kFew) << queries;
    }
  }
  EXPECT_EQ(alternative_plans({}, kFrame, kH200), std::vector<CudaPlan>(1));  // sdpa
}

TEST(Alternatives, APlanOfTheClassIsCutToTheSizes) {
  EXPECT_EQ(fitted_plan(plan(32), {1, 1041, 1041, 64}, kH200), plan(17));  // tiles of keys
  EXPECT_EQ(fitted_plan(plan(4), {16, 1041, 1, 64}, kH200), plan(1));
  EXPECT_FALSE(fitted_plan({CudaKernel::strict, {77, 64}, 2}, kFrame, kH200));
  EXPECT_FALSE(fitted_plan(plan(2), kFrame, kTuring));  // no such tile there
  EXPECT_FALSE(fitted_plan(plan(0), kFrame, kH200));
  EXPECT_FALSE(fitted_plan(plan(-3), kFrame, kH200));
}

// ---- the choice

/// The time of a plan is that of its number of partitions; its first run takes longer.
struct FakeTimer {
  std::vector<double> milliseconds;
  double loading = 0;
  std::vector<int> runs = std::vector<int>(milliseconds.size(), 0);
  double spent = 0;

  double operator()(const CudaPlan& one) {
    const auto i = static_cast<std::size_t>(one.partitions - 1);
    const double time = milliseconds[i] + (runs[i]++ == 0 ? loading : 0);
    if (time < std::numeric_limits<double>::infinity()) spent += time;
    return time;
  }
};

std::optional<CudaPlan> choose(FakeTimer& timer, vggt::TuneBudget budget = {}, double least_ms = 0) {
  std::vector<CudaPlan> plans;
  for (std::size_t i = 0; i < timer.milliseconds.size(); ++i) plans.push_back(plan(static_cast<int>(i) + 1));
  return fastest_plan(plans, std::ref(timer), least_ms, budget);
}

TEST(FastestPlan, IsTheFastestWhateverItTookToLoad) {
  FakeTimer timer{{3, 2, 1, 4}, 5};
  EXPECT_EQ(choose(timer), plan(3));
  EXPECT_EQ(timer.runs, (std::vector<int>{4, 4, 4, 4}));
}

TEST(FastestPlan, KeepsTheFirstUnlessAnotherIsClearlyFaster) {
  FakeTimer close{{1, 0.98, 0.99}};
  EXPECT_EQ(choose(close), plan(1));
  FakeTimer clear{{1, 0.98, 0.9}};
  EXPECT_EQ(choose(clear), plan(3));
}

TEST(FastestPlan, IsTheFastestWhereLoadingTakesMostOfTheBudget) {
  FakeTimer timer{{1, 0.2, 0.5}, 80};
  EXPECT_EQ(choose(timer), plan(2));
}

TEST(FastestPlan, StaysWithinItsBudget) {
  FakeTimer timer{std::vector<double>(50, 2.0)};
  choose(timer, {.milliseconds = 40, .runs = 3});
  EXPECT_LE(timer.spent, 40);
  EXPECT_EQ(std::count(timer.runs.begin(), timer.runs.end(), 4), 5);
  EXPECT_EQ(std::count(timer.runs.begin(), timer.runs.end(), 0), 45);
}

TEST(FastestPlan, OfLargeSizesIsTheFirstAfterTwoRuns) {
  FakeTimer timer{{900, 1}};
  EXPECT_EQ(choose(timer), plan(1));
  EXPECT_EQ(timer.runs, (std::vector<int>{2, 0}));
}

TEST(FastestPlan, IsTheFastestHoweverLongLoadingTakes) {
  FakeTimer timer{{10, 5}, 2500};
  EXPECT_EQ(choose(timer), plan(2));
}

TEST(FastestPlan, RunsNothingWhereTheBudgetCannotSuffice) {
  const vggt::TuneBudget budget{.milliseconds = 80, .runs = 3};  // two plans of four runs of 10 ms
  FakeTimer enough{{10, 5}}, too_long{{11, 5}};
  EXPECT_EQ(choose(enough, budget, 10), plan(2));
  EXPECT_EQ(choose(too_long, budget, 10.01), std::nullopt);
  EXPECT_EQ(too_long.runs, (std::vector<int>{0, 0}));
}

TEST(LeastMilliseconds, AreFewerThanMeasuredOnAnH200) {
  struct Measured {
    AttentionVariant variant;
    int64_t tokens, dim;
    double tflops;  // of 16 heads, from README.md
  };
  for (const Measured& m :
       {Measured{AttentionVariant::strict, 104100, 64, 47},
        Measured{AttentionVariant::split, 16656, 128, 247},
        Measured{AttentionVariant::turbo, 16656, 128, 637}, Measured{AttentionVariant::half, 104100, 64, 541},
        Measured{AttentionVariant::half, 16656, 128, 692}}) {
    const CudaSizes sizes{16, m.tokens, m.tokens, m.dim};
    const double n = static_cast<double>(m.tokens);
    const double measured = 4 * 16 * n * n * static_cast<double>(m.dim) / (m.tflops * 1e9);
    const double least = least_milliseconds(m.variant, sizes, kH200);
    EXPECT_LT(least, measured) << variant_name(m.variant);
    EXPECT_GT(least, 0.5 * measured) << variant_name(m.variant);
  }
  EXPECT_EQ(least_milliseconds(AttentionVariant::sdpa, kFrame, kH200), 0);
}

TEST(LeastMilliseconds, KeepLongCallsFromBeingMeasured) {
  for (AttentionVariant variant :
       {AttentionVariant::strict, AttentionVariant::split, AttentionVariant::turbo, AttentionVariant::half}) {
    for (int64_t frames : {1, 200, 1000}) {
      const CudaSizes sizes{16, 1041 * frames, 1041 * frames, 64};
      FakeTimer timer{{1, 0.5}};
      const auto best = choose(timer, {}, least_milliseconds(variant, sizes, kH200));
      EXPECT_EQ(best.has_value(), frames == 1) << variant_name(variant) << ", frames " << frames;
      EXPECT_EQ(timer.runs, std::vector<int>(2, frames == 1 ? 4 : 0));
    }
  }
}

TEST(FastestPlan, PassesOverWhatCannotRun) {
  FakeTimer timer{{3, std::numeric_limits<double>::infinity(), 1}};
  EXPECT_EQ(choose(timer), plan(3));
  EXPECT_EQ(timer.runs[1], 1);
  FakeTimer without_first{{std::numeric_limits<double>::infinity(), 3, 1}};
  EXPECT_EQ(choose(without_first), plan(3));
  FakeTimer none{{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(choose(none), plan(1));
}

// ---- parts of long calls

double operations(const CudaSizes& sizes) {
  return 4 * static_cast<double>(sizes.rows * sizes.queries) * static_cast<double>(sizes.keys * sizes.dim);
}

TEST(ComparedPart, IsTheWholeOfAShortCallAndAffordableOfALongOne) {
  constexpr std::size_t kPlans = 4;
  const vggt::TuneBudget budget;
  for (const CudaDevice& device : {kH200, kTuring}) {
    for (auto variant : {AttentionVariant::strict, AttentionVariant::split, AttentionVariant::half}) {
      for (int64_t rows : {1, 16, 1600}) {
        for (int64_t queries : {100, 1041, 104100, 1041000}) {
          for (int64_t keys : {100, 1041, 104100, 1041000}) {
            const CudaSizes sizes{rows, queries, keys, 64};
            const double least = least_milliseconds(variant, sizes, device);
            const double share = vggt::affordable_share(kPlans, least, budget);
            const CudaSizes part = compared_part(sizes, share, device);
            const double part_least = least_milliseconds(variant, part, device);
            EXPECT_LE(kPlans * (1 + budget.runs) * 3 * part_least, 1.001 * budget.milliseconds);
            EXPECT_TRUE(part.rows >= 1 && part.rows <= rows);
            EXPECT_TRUE(part.queries >= 1 && part.queries <= queries);
            EXPECT_TRUE(part.keys >= 1 && part.keys <= keys);
            EXPECT_EQ(part.dim, 64);
            const bool whole = 3 * kPlans * (1 + budget.runs) * least <= budget.milliseconds;
            EXPECT_EQ(operations(part) == operations(sizes), whole);
            // It fills the device where the call does, so that kernels are compared as they run in the call.
            EXPECT_GE(part.rows * part.queries,
                      std::min<int64_t>(rows * queries, 768 * device.multiprocessors));
          }
        }
      }
    }
  }
}

TEST(ComparedPart, OfLongCallsIsTheSameWhateverTheirLength) {
  auto key = [](int64_t tokens) {
    const CudaSizes sizes{16, tokens, tokens, 64};
    const double share = vggt::affordable_share(4, least_milliseconds(AttentionVariant::half, sizes, kH200));
    return tune_key(AttentionVariant::half, CudaElement::bf16, compared_part(sizes, share, kH200));
  };
  const TuneKey longest = key(1'041'000);
  EXPECT_EQ(longest.rows, 1);
  EXPECT_GT(longest.keys, 32768);
  for (int64_t tokens : {104'100, 208'200, 416'400}) EXPECT_EQ(key(tokens), longest) << tokens;
  EXPECT_NE(key(1041), longest);
}

TEST(ComparedPart, KeepsSequencesOfOneFrameWhole) {
  const CudaSizes frames{16 * 1000, 1041, 1041, 64};
  const double share = vggt::affordable_share(4, least_milliseconds(AttentionVariant::strict, frames, kH200));
  const CudaSizes part = compared_part(frames, share, kH200);
  EXPECT_LT(share, 1);
  EXPECT_EQ(part.queries, frames.queries);
  EXPECT_LT(part.rows, frames.rows);
}

TEST(AttentionTunerTest, NotesWhatRanOnceAndInOrder) {
  AttentionTuner tuner(0, {}, /*measures=*/false);
  EXPECT_FALSE(tuner.measures());
  tuner.note_run(AttentionVariant::half, {CudaKernel::sdpa_cudnn, {}, 1});
  tuner.note_run(AttentionVariant::strict, plan(2));
  tuner.note_run(AttentionVariant::strict, plan(3));
  tuner.note_run(AttentionVariant::half, {CudaKernel::sdpa_cudnn, {}, 1});
  tuner.note_missing(CudaKernel::sdpa_flash);
  tuner.note_missing(CudaKernel::sdpa_flash);
  EXPECT_EQ(tuner.runs(), (std::vector<std::string>{"half: cuDNN (LibTorch)", "strict: own, 128x64"}));
  EXPECT_EQ(tuner.missing(),
            std::vector<std::string>{"flash (LibTorch): not offered by this build or device"});
  EXPECT_FALSE(tuner.changed());
}

TEST(AttentionTunerTest, KeepsWhatItIsGiven) {
  AttentionTuner tuner(2, {{TuneKey{AttentionVariant::half, CudaElement::bf16, 64, 1, 1, 1}, plan(7)}});
  EXPECT_EQ(tuner.device(), 2);
  EXPECT_FALSE(tuner.changed());
  const TuneKey key = tune_key(AttentionVariant::strict, CudaElement::fp32, kFrame);
  EXPECT_FALSE(tuner.find(key));
  tuner.keep(key, plan(5));
  EXPECT_EQ(tuner.find(key), plan(5));
  EXPECT_TRUE(tuner.changed());
  EXPECT_EQ(tuner.plans().size(), 2u);
}

TEST(AttentionTunerTest, TakesPlansFromSeveralThreads) {
  AttentionTuner tuner(0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&tuner, thread] {
      for (int64_t n = 1; n <= 64; ++n) {
        const TuneKey key = tune_key(AttentionVariant::strict, CudaElement::fp32, {16, n, n, 64});
        if (const std::optional<CudaPlan> known = tuner.find(key); known && known->partitions < 1) return;
        tuner.keep(key, plan(thread + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tuner.plans().size(), 16u + 2u * 8u);  // 1..15, two octaves, 64
}

// ---- the cache's text

const TunedGpu kGpu{"NVIDIA \"H200\"\n", 132, 13000, 13000, "0.1.0", "2.11.0"};

TuneKey beside_libtorch(AttentionVariant variant, CudaElement type) {
  TuneKey key = tune_key(variant, type, kFrame);
  key.libtorch = true;
  return key;
}

TunedPlans some_plans() {
  return {{tune_key(AttentionVariant::strict, CudaElement::fp32, kFrame), plan(4)},
          {tune_key(AttentionVariant::half, CudaElement::fp16, {16, 104100, 104100, 128}),
           {CudaKernel::half_sm90, vggt::kHalfTile90Wide, 2}},
          {beside_libtorch(AttentionVariant::half, CudaElement::bf16), {CudaKernel::sdpa_cudnn, {}, 1}},
          {beside_libtorch(AttentionVariant::split, CudaElement::fp32),
           {CudaKernel::split_sm90, vggt::kSplitTile90, 1}}};
}

TEST(TuneCache, ReadsBackForItsGpuAlone) {
  const std::string text = cache_with_plans("", kGpu, some_plans());
  EXPECT_EQ(plans_in_cache(text, kGpu), some_plans());
  TunedGpu other = kGpu;
  other.name = "another";
  EXPECT_TRUE(plans_in_cache(text, other).empty());
  for (int TunedGpu::*number : {&TunedGpu::multiprocessors, &TunedGpu::driver, &TunedGpu::runtime}) {
    TunedGpu stale = kGpu;
    stale.*number += 1;
    EXPECT_TRUE(plans_in_cache(text, stale).empty());
  }
  TunedGpu newer = kGpu;
  newer.program = "0.2.0";
  EXPECT_TRUE(plans_in_cache(text, newer).empty());
  TunedGpu other_kernels = kGpu;
  other_kernels.libtorch = "2.12.0";
  EXPECT_TRUE(plans_in_cache(text, other_kernels).empty());
}

TEST(TuneCache, GathersGpusAndPlansAndDropsWhatIsStale) {
  const TuneKey first = some_plans().begin()->first;
  TunedGpu other = kGpu, newer = kGpu;
  other.name = "another";
  newer.driver += 10;
  std::string text = cache_with_plans("", kGpu, some_plans());
  text = cache_with_plans(text, other, {{first, plan(9)}});
  text = cache_with_plans(text, kGpu, {{first, plan(8)}});
  EXPECT_EQ(plans_in_cache(text, other).at(first), plan(9));
  EXPECT_EQ(plans_in_cache(text, kGpu).size(), some_plans().size());
  EXPECT_EQ(plans_in_cache(text, kGpu).at(first), plan(8));
  text = cache_with_plans(text, newer, {{first, plan(3)}});
  EXPECT_TRUE(plans_in_cache(text, kGpu).empty());
  EXPECT_EQ(plans_in_cache(text, newer).size(), 1u);
  EXPECT_EQ(plans_in_cache(text, other).size(), 1u);
}

TEST(TuneCache, DamagedTextIsIgnoredAndBegunAnew) {
  const std::string good = cache_with_plans("", kGpu, some_plans());
  std::vector<std::string> bad = {"",
                                  "{",
                                  "null",
                                  "[]",
                                  "{}",
                                  "7",
                                  std::string(5000, '['),
                                  "\xff\xfe",
                                  R"({"format":3,"gpus":[{"gpu":{},"plans":[]}]})",
                                  R"({"format":4,"gpus":[]})"};
  for (std::size_t length = 0; length + 2 < good.size(); length += 7) bad.push_back(good.substr(0, length));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    bad.push_back(text.replace(text.find(from), from.size(), to));
  };
  for (const char* partitions : {"-1", "1e300", "4.5", "\"4\"", "99999999999999999999", "null"})
    with("\"partitions\": 4", std::string("\"partitions\": ") + partitions);
  with("\"variant\": \"strict\"", "\"variant\": \"stricter\"");
  with("\"fp32\"", "\"fp31\"");
  with("\"tile\": [", "\"tile\": [[1],");
  with("\"kernel\": \"strict\"", "\"kernel\": \"half_sm90\"");  // of another variant
  with("\"kernel\": \"strict\"", "\"kernel\": \"strict_sm75\"");
  with("\"kernel\": \"strict\",", "");
  with("\"kernel\": \"strict\"", "\"kernel\": \"sdpa_efficient\"");  // which was not measured beside it
  with("\"kernel\": \"split_sm90\"", "\"kernel\": \"sdpa_cudnn\"");  // which is less exact
  with("\"libtorch\": true", "\"libtorch\": \"yes\"");
  with("\"libtorch\": \"2.11.0\",", "");
  // The form before plans named their kernel.
  bad.push_back(
      R"({"format":1,"gpus":[{"gpu":{"name":"NVIDIA \"H200\"\n","multiprocessors":132,"driver":13000,)"
      R"("runtime":13000,"program":"0.1.0"},"plans":[{"variant":"strict","type":"fp32","dim":64,"rows":16,)"
      R"("queries":1024,"keys":1024,"tile":[128,64],"partitions":4}]}]})");
  for (const std::string& text : bad) {
    EXPECT_TRUE(plans_in_cache(text, kGpu).empty()) << text;
    EXPECT_EQ(plans_in_cache(cache_with_plans(text, kGpu, some_plans()), kGpu), some_plans()) << text;
  }
}

// ---- on a GPU

#ifdef VGGT_CUDA
class AutotuneCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no GPU";
  }
  static vggt::AttentionOptions options(AttentionTuner& tuner) {
    vggt::AttentionOptions options;
    options.variant = AttentionVariant::strict;
    options.tuner = &tuner;
    return options;
  }
};

TEST_F(AutotuneCuda, MeasuresAClassOnceAndStaysExact) {
  AttentionTuner tuner(0);
  for (int64_t n : {130, 700, 1041, 1050}) {
    const Qkv x = model_qkv(1, 4, n, 64, on(at::kFloat, "cuda"));
    const at::Tensor out = attention(x.q, x.k, x.v, options(tuner)).out;
    EXPECT_LE(norm_error_of(out, exact(x).out), 1e-6) << n;
    EXPECT_TRUE(at::equal(out, attention(x.q, x.k, x.v, options(tuner)).out)) << n;
  }
  EXPECT_EQ(tuner.plans().size(), 3u);  // 1041 and 1050 are of one class
}

TEST_F(AutotuneCuda, LeavesAloneWhatIsNotItsOwn) {
  AttentionTuner other(1), own(0);
  const Qkv x = random_qkv(1, 2, 200, 300, 64, on(at::kFloat, "cuda"));
  attention(x.q, x.k, x.v, options(other));
  EXPECT_FALSE(other.changed());
  vggt::AttentionOptions packed = options(own);
  packed.q_offsets = at::tensor({0, 90, 200}, at::kLong);
  packed.k_offsets = at::tensor({0, 200, 300}, at::kLong);
  attention(x.q, x.k, x.v, packed);
  vggt::AttentionOptions sdpa = options(own);
  sdpa.variant = AttentionVariant::sdpa;
  attention(x.q, x.k, x.v, sdpa);
  attention(x.q, x.k.narrow(2, 0, 0), x.v.narrow(2, 0, 0), options(own));
  EXPECT_FALSE(own.changed());
}

TEST_F(AutotuneCuda, LongCallsAreNotMeasured) {
  AttentionTuner tuner(0);
  const Qkv x = random_qkv(1, 16, 60000, 60000, 64, on(at::kFloat, "cuda"));
  const CudaPlan policy = plan_cuda(x.q, x.k, options(tuner));
  EXPECT_EQ(tuned_plan(x.q, x.k, x.v, options(tuner), policy), policy);
  EXPECT_FALSE(tuner.changed());
  EXPECT_TRUE(tuner.plans().empty());
}

TEST_F(AutotuneCuda, NeverMeasuresWhileAStreamIsCaptured) {
  AttentionTuner tuner(0);
  const Qkv x = random_qkv(1, 2, 200, 300, 64, on(at::kFloat, "cuda"));
  vggt::AttentionOptions asked = options(tuner);
  asked.scale = 0.125;
  const CudaPlan policy = plan_cuda(x.q, x.k, asked);
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream before = c10::cuda::getCurrentCUDAStream();
  c10::cuda::setCurrentCUDAStream(stream);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const CudaPlan chosen = tuned_plan(x.q, x.k, x.v, asked, policy);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  c10::cuda::setCurrentCUDAStream(before);
  cudaGraphDestroy(graph);
  EXPECT_EQ(chosen, policy);
  EXPECT_FALSE(tuner.changed());
}
#endif

}  // namespace
