// Output files appear together or not at all.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <system_error>

#include "io/files/staged_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class StagedFilesTest : public ::testing::Test {
 protected:
  StagedFilesTest() {
    std::string name = (fs::temp_directory_path() / "vggt_outputs_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~StagedFilesTest() override { fs::remove_all(dir_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }

  fs::path dir_;
};

TEST_F(StagedFilesTest, AllAppearAtOnce) {
  const fs::path a = dir_ / "a", b = dir_ / "new/b";
  write(a, "old");
  {
    StagedFiles files({a, b});
    files.write(a, [](const fs::path& place) { write(place, "new a"); });
    files.write(b, [](const fs::path& place) { write(place, "new b"); });
    EXPECT_EQ(text_of(a), "old");
    EXPECT_FALSE(fs::exists(b));
    files.commit();
  }
  EXPECT_EQ(text_of(a), "new a");
  EXPECT_EQ(text_of(b), "new b");
  EXPECT_EQ(entries(), 2u);
}

// The third file was announced but never written: its rename fails after the others' have been done.
TEST_F(StagedFilesTest, ALateFailureBringsEverythingBack) {
  const fs::path a = dir_ / "a", b = dir_ / "b", c = dir_ / "c";
  write(a, "old a");
  write(c, "old c");
  {
    StagedFiles files({a, b, c});
    files.write(a, [](const fs::path& place) { write(place, "new a"); });
    files.write(b, [](const fs::path& place) { write(place, "new b"); });
    files.staged(c);
    EXPECT_THROW(files.commit(), std::system_error);
  }
  EXPECT_EQ(text_of(a), "old a");
  EXPECT_FALSE(fs::exists(b));
  EXPECT_EQ(text_of(c), "old c");
  EXPECT_EQ(entries(), 2u);  // no hidden folder is left
}

TEST_F(StagedFilesTest, WithoutCommitNothingChanges) {
  const fs::path a = dir_ / "deep/er/a";
  {
    StagedFiles files({a});
    files.write(a, [](const fs::path& place) { write(place, "x"); });
  }
  EXPECT_EQ(entries(), 0u);
}

}  // namespace
}  // namespace vggt
