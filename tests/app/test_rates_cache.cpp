// The file of measured rates: what it holds rates for, and that nothing about it can go wrong for the run.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "app/run/rates_cache.h"
#include "model/memory_plan.h"
#include "model/vggt.h"
#include "tests/support/variable.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

const std::string kKey = "vggt-recon " VGGT_VERSION "; here", kOther = "vggt-recon " VGGT_VERSION "; there";

Rates rates_of(double value) {
  Rates rates;
  visit_rates(rates, [&](const char*, double& rate) { rate = value *= 0.5; });
  return rates;
}

void expect_same(const std::optional<Rates>& a, const Rates& b) {
  ASSERT_TRUE(a);
  std::vector<double> values;
  visit_rates(b, [&](const char*, double rate) { values.push_back(rate); });
  std::size_t i = 0;
  visit_rates(*a, [&](const char* name, double rate) { EXPECT_EQ(rate, values[i++]) << name; });
}

TEST(RatesCache, ReadsBackWhatWasPutIn) {
  std::string cache = cache_with_rates("", kKey, rates_of(1));
  cache = cache_with_rates(cache, kOther, rates_of(3));
  expect_same(rates_in_cache(cache, kKey), rates_of(1));
  expect_same(rates_in_cache(cache, kOther), rates_of(3));
  EXPECT_FALSE(rates_in_cache(cache, "vggt-recon " VGGT_VERSION "; nowhere"));
  cache = cache_with_rates(cache, kKey, rates_of(5));
  expect_same(rates_in_cache(cache, kKey), rates_of(5));
}

TEST(RatesCache, RatesOfOtherVersionsGo) {
  const std::string old = cache_with_rates("", "vggt-recon 0.0.0; here", rates_of(1));
  ASSERT_TRUE(rates_in_cache(old, "vggt-recon 0.0.0; here"));
  const std::string cache = cache_with_rates(old, kKey, rates_of(1));
  EXPECT_FALSE(rates_in_cache(cache, "vggt-recon 0.0.0; here"));
  EXPECT_TRUE(rates_in_cache(cache, kKey));
}

TEST(RatesCache, AnotherTextIsNoCache) {
  const std::string good = cache_with_rates("", kKey, rates_of(1));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string("\xff"),
        good.substr(0, good.size() / 2), changed("\"format\": 1", "\"format\": 2"), changed("0.5", "-0.5"),
        changed("0.5", "1e300"), changed("0.5", "null"), changed("0.5", "\"0.5\""),
        changed("\"vit_token\"", "\"token\""), changed("\"rates\"", "\"prices\"")}) {
    EXPECT_FALSE(rates_in_cache(text, kKey)) << text;
    expect_same(rates_in_cache(cache_with_rates(text, kKey, rates_of(2)), kKey), rates_of(2));
  }
}

TEST(RatesKey, TellsWhatTimesDependOn) {
  const Config config;
  ModelOptions options;
  options.heads = {.camera = true, .depth = true};
  const std::string key = rates_key(config, options);
  EXPECT_NE(key.find("fp32"), std::string::npos) << key;
  EXPECT_NE(key.find("threads"), std::string::npos) << key;
  Config deeper = config;
  deeper.depth = 12;
  deeper.vit_depth = 7;
  deeper.intermediate_layers = {1, 2, 3, 11};
  EXPECT_EQ(rates_key(deeper, options), key);
  Config wider = config;
  wider.embed_dim = 2048;
  EXPECT_NE(rates_key(wider, options), key);
  ModelOptions more = options;
  more.heads.points = true;
  EXPECT_NE(rates_key(config, more), key);
  more = options;
  more.precision = Precision::fp64;
  EXPECT_NE(rates_key(config, more), key);
  more = options;
  more.heads_in_bf16 = true;
  EXPECT_NE(rates_key(config, more), key);
}

// The measurement writes 64 MiB and waits for the disk: once, not in each run.
TEST(ScratchRates, AreMeasuredOnceAndKept) {
  if (fs::space(testing::TempDir()).available < (uintmax_t{1} << 29)) GTEST_SKIP() << "a small disk";
  const fs::path folder = fs::path(testing::TempDir()) / ("scratch_rates" + std::to_string(getpid()));
  fs::create_directories(folder / "cache");
  fs::create_directories(folder / "scratch");
  const test::Variable cache("XDG_CACHE_HOME", (folder / "cache").c_str());
  MemoryRequest request;
  request.heads = {.camera = true};
  request.tensors = expected_tensors(request.config, request.heads);
  request.frames = 400;
  request.height = request.width = 392;
  request.budget.scratch = folder / "scratch";
  std::optional<Rates> rates = Rates();
  add_scratch_rates(request, /*measure=*/true, rates);  // all fits into memory
  EXPECT_EQ(rates.value().to_scratch, 0);
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
  request.budget.host = plan_memory(request).peak_bytes() / 3;
  add_scratch_rates(request, /*measure=*/false, rates);  // not known yet
  EXPECT_FALSE(rates);
  rates = Rates();
  add_scratch_rates(request, /*measure=*/true, rates);
  const double first = rates.value().to_scratch;
  EXPECT_GT(first, 0);
  EXPECT_GT(rates->from_scratch, 0);
  for (const bool measure : {false, true}) {
    rates = Rates();
    add_scratch_rates(request, measure, rates);
    EXPECT_EQ(rates.value().to_scratch, first);
  }
  EXPECT_TRUE(fs::is_empty(folder / "scratch"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace vggt
