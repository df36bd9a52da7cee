#include <gtest/gtest.h>

#include <vector>

#include "io/files/text.h"

namespace vggt {
namespace {

TEST(FirstOf, NamesSoManyAndSaysThatThereAreOthers) {
  EXPECT_EQ(first_of({}, 2), "");
  EXPECT_EQ(first_of({"a"}, 2), "a");
  EXPECT_EQ(first_of({"a", "b"}, 2), "a, b");
  EXPECT_EQ(first_of({"a", "b", "c"}, 2), "a, b, ...");
}

TEST(Text, PrintableIsShortAndOnOneLine) {
  EXPECT_EQ(printable("a b\n\x1b[31m\x7f"), "a b??[31m?");
  EXPECT_EQ(printable("\xc2\x80\xc2\x9f\xc2\xa0ü\xc2"), "??\xc2\xa0ü\xc2");
  EXPECT_EQ(printable(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(printable(std::string(101, 'x')), std::string(100, 'x') + "...");
}

TEST(Text, TrimmedLosesBlanksAtItsEnds) {
  EXPECT_EQ(trimmed(" \t a b \r"), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, WordsAreTakenOffTheFront) {
  std::string_view line = "  one\ttwo three\r";
  std::vector<std::string_view> words;
  for (std::string_view word; !(word = next_word(line)).empty();) words.push_back(word);
  EXPECT_EQ(words, (std::vector<std::string_view>{"one", "two", "three"}));
}

TEST(Text, DeepNestingIsSeen) {
  const auto nested = [](int depth) { return std::string(static_cast<std::size_t>(depth), '['); };
  EXPECT_FALSE(nests_deeply(nested(100)));
  EXPECT_TRUE(nests_deeply(nested(101)));
  EXPECT_TRUE(nests_deeply("{\"a\":" + nested(101)));
  EXPECT_FALSE(nests_deeply("\"" + nested(200) + "\""));
  EXPECT_TRUE(nests_deeply("\"\\\"\"" + nested(101)));
  std::string flat;
  for (int i = 0; i < 200; ++i) flat += "[],{},";
  EXPECT_FALSE(nests_deeply(flat));
}

TEST(Lower, ChangesTheLettersOfEnglishAlone) {
  EXPECT_EQ(lower("IMG_0042.JPeG"), "img_0042.jpeg");
  EXPECT_EQ(lower("@[`{Äz"), "@[`{Äz");
  EXPECT_EQ(lower(""), "");
}

}  // namespace
}  // namespace vggt
