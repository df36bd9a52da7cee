#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "io/files/text_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class TextFile : public testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  const fs::path path_ = fs::temp_directory_path() / ("vggt_text_file_" + std::to_string(::getpid()));
};

std::string error_of(const fs::path& path, uint64_t max_bytes) {
  try {
    read_text_file(path, max_bytes, "a file of options");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_F(TextFile, IsReadWholeAndAsItIs) {
  std::string text = "a\r\n\0b\n";
  for (int i = 0; i < 20000; ++i) text += static_cast<char>(i);
  write(text);
  EXPECT_EQ(read_text_file(path_, text.size(), "a text"), text);
  write("");
  EXPECT_EQ(read_text_file(path_, 0, "a text"), "");
}

TEST_F(TextFile, IsReadWithoutAByteOrderMarkInFront) {
  write(
      "\xEF\xBB\xBF"
      "a\xEF\xBB\xBF");
  EXPECT_EQ(read_text_file(path_, 7, "a text"), "a\xEF\xBB\xBF");
}

TEST_F(TextFile, MayNotBeLargerThanAsked) {
  write(std::string(65537, 'x'));
  EXPECT_EQ(error_of(path_, 65536), path_.string() + ": larger than 64 KiB, not a file of options");
  EXPECT_EQ(error_of(path_, 1000), path_.string() + ": larger than 1000 bytes, not a file of options");
  EXPECT_EQ(error_of("/dev/zero", 1 << 20), "/dev/zero: larger than 1 MiB, not a file of options");
}

TEST_F(TextFile, ThatCannotBeReadIsNamed) {
  for (const fs::path& path : {path_ / "absent", fs::temp_directory_path()}) {
    try {
      read_text_file(path, 10, "a text");
      ADD_FAILURE() << path;
    } catch (const std::system_error& error) {
      const bool is_folder = path == fs::temp_directory_path();
      EXPECT_EQ(error.code(), is_folder ? std::errc::is_a_directory : std::errc::no_such_file_or_directory);
      EXPECT_EQ(std::string(error.what()).find(path.string() + ": cannot be read"), 0U) << error.what();
    }
  }
}

// A shell's <(...) has no size.
TEST_F(TextFile, MayBeAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  std::thread writer([&] { write(std::string(100000, 'x')); });
  EXPECT_EQ(read_text_file(path_, 1 << 20, "a text"), std::string(100000, 'x'));
  writer.join();
}

}  // namespace
}  // namespace vggt
