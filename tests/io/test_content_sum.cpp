// Sums of files: equal contents have equal sums, and others do not, whatever their times say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

#include "io/files/content_sum.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class ContentSum : public ::testing::Test {
 protected:
  ContentSum() : path_(fs::temp_directory_path() / ("vggt_content_sum_" + std::to_string(::getpid()))) {}
  ~ContentSum() override { fs::remove(path_); }

  std::string sum_of(const std::string& contents) const {
    std::ofstream(path_, std::ios::binary) << contents;
    return content_sum(path_);
  }

  fs::path path_;
};

TEST_F(ContentSum, TellsContentsApart) {
  EXPECT_EQ(sum_of("frame"), sum_of("frame"));
  EXPECT_NE(sum_of("frame"), sum_of("frema"));
  EXPECT_NE(sum_of(""), sum_of(std::string(1, '\0')));
  EXPECT_NE(sum_of(std::string(100, '\0')), sum_of(std::string(101, '\0')));
}

TEST_F(ContentSum, OfALargeFileReadsItsBeginItsEndAndParts) {
  const std::size_t size = kSummedWhole + 12345;
  std::string contents(size, 'x');
  const std::string before = sum_of(contents);
  for (const std::size_t at : {std::size_t{0}, size - 1}) {
    contents[at] = 'y';
    EXPECT_NE(sum_of(contents), before) << at;
    contents[at] = 'x';
  }
  std::string other = contents;
  for (std::size_t at = size / 3; at < size / 2; ++at) other[at] = 'y';
  EXPECT_NE(sum_of(other), before);
  EXPECT_EQ(sum_of(contents), before);
}

TEST_F(ContentSum, WhatIsNoFileThrows) {
  EXPECT_THROW(content_sum(path_), std::system_error);
  EXPECT_THROW(content_sum(fs::temp_directory_path()), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
