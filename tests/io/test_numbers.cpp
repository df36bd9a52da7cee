#include <gtest/gtest.h>

#include <cstdint>

#include "io/files/numbers.h"

namespace vggt {
namespace {

TEST(Numbers, AreTheWholeText) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1.5e3"), 1500);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1,5", "one"}) {
    EXPECT_FALSE(parse_number<int>(text)) << text;
    EXPECT_FALSE(parse_number<double>(text)) << text;
  }
  EXPECT_FALSE(parse_number<int>("1.5"));
}

TEST(Numbers, MustFitTheirType) {
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_FALSE(parse_number<uint8_t>("256"));
  EXPECT_FALSE(parse_number<uint8_t>("-1"));
  EXPECT_FALSE(parse_number<int64_t>("9223372036854775808"));
  EXPECT_FALSE(parse_number<float>("1e39"));
}

TEST(Numbers, FiniteOnesAreNeitherInfNorNan) {
  EXPECT_EQ(parse_finite<float>("0.25"), 0.25F);
  for (const char* text : {"inf", "-inf", "nan", "x", ""}) EXPECT_FALSE(parse_finite<float>(text)) << text;
  EXPECT_TRUE(parse_number<float>("inf"));
}

}  // namespace
}  // namespace vggt
