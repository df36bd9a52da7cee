// Sums of files: equal contents have equal sums, and others do not, whatever their times say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "io/files/content_sum.h"
#include "io/files/crc32.h"

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

TEST_F(ContentSum, EachByteOfALargeFileCounts) {
  const std::size_t size = kSummedWhole + 12345;
  std::string contents(size, 'x');
  const std::string before = sum_of(contents);
  EXPECT_EQ(before, std::to_string(size) + " bytes, sum " +
                        std::to_string(crc32(std::as_bytes(std::span(contents)))));
  for (const std::size_t at : {std::size_t{0}, size / 3, std::size_t{4} << 20, size - 1}) {
    contents[at] = 'y';
    EXPECT_NE(sum_of(contents), before) << at;
    contents[at] = 'x';
  }
}

TEST_F(ContentSum, ASampleOfALargeFileHasItsBeginItsEndAndParts) {
  const std::size_t size = kSummedWhole + 12345;
  const auto sample_of = [&](const std::string& contents) {
    std::ofstream(path_, std::ios::binary) << contents;
    return sampled_sum(path_);
  };
  std::string contents(size, 'x');
  const std::string before = sample_of(contents);
  for (const std::size_t at : {std::size_t{0}, size - 1}) {
    contents[at] = 'y';
    EXPECT_NE(sample_of(contents), before) << at;
    contents[at] = 'x';
  }
  std::string other = contents;
  for (std::size_t at = size / 3; at < size / 2; ++at) other[at] = 'y';
  EXPECT_NE(sample_of(other), before);
  EXPECT_EQ(sample_of(contents), before);
  EXPECT_NE(sample_of("frame"), sample_of("frema"));
}

TEST_F(ContentSum, WhatACheckThrowsEndsIt) {
  sum_of(std::string(std::size_t{20} << 20, 'x'));
  std::atomic<int> checks = 0;
  const auto check = [&] {
    if (++checks == 3) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(content_sum(path_, check), std::runtime_error);
  EXPECT_EQ(content_sum(path_, [] {}), content_sum(path_));
}

TEST_F(ContentSum, WhatIsNoFileThrows) {
  EXPECT_THROW(content_sum(path_), std::system_error);
  EXPECT_THROW(content_sum(fs::temp_directory_path()), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
