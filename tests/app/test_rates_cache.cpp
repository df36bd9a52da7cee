// The file of measured rates: what it holds rates for, and that nothing about it can go wrong for the run.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "app/run/rates_cache.h"

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

}  // namespace
}  // namespace vggt
