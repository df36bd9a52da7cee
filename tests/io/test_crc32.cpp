#include <gtest/gtest.h>

#include <string>

#include "io/files/crc32.h"

namespace vggt {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// "123456789" is the check value of every catalogue of CRCs.
TEST(Crc32, IsThatOfZipArchives) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32({}), 0U);
}

TEST(Crc32, OfPartsGivesThatOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{333}, text.size()}) {
    const uint32_t front = crc32(bytes_of(text).first(cut)), back = crc32(bytes_of(text).subspan(cut));
    EXPECT_EQ(combine_crc32(front, back, text.size() - cut), crc32(bytes_of(text))) << cut;
  }
}

}  // namespace
}  // namespace vggt
