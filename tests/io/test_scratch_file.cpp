#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <system_error>
#include <vector>

#include "io/files/scratch_file.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

fs::path fresh(const char* name) {
  const fs::path path = fs::temp_directory_path() / (name + std::to_string(::getpid()));
  fs::remove_all(path);
  return path;
}

TEST(ScratchFile, GivesBackWhatWasWrittenAnywhere) {
  const fs::path path = fresh("scratch_a");
  std::ofstream(path) << "something old and longer than the first bytes";
  ScratchFile file(path, 1000);
  const std::vector<int> one = {1, 2, 3}, two = {7, 8};
  file.write(500, one.data(), 12);
  file.write(992, two.data(), 8);
  std::vector<int> got(3);
  file.read(500, got.data(), 12);
  EXPECT_EQ(got, one);
  file.read(0, got.data(), 12);
  EXPECT_EQ(got, std::vector<int>({0, 0, 0}));  // the old contents are gone
  got.resize(2);
  file.read(992, got.data(), 8);
  EXPECT_EQ(got, two);
  EXPECT_THROW(file.read(1000, got.data(), 8), std::system_error);
  fs::remove(path);
}

TEST(ScratchFile, BytesAtOnceAreCounted) {
  begin_peak_scratch_bytes();
  EXPECT_EQ(peak_scratch_bytes(), 0);
  ScratchBytes kept;
  kept.hold(100);
  {
    ScratchFile reserved(fresh("scratch_d"), 1000), grown(fresh("scratch_e"), 0);
    const std::vector<char> bytes(300);
    grown.write(200, bytes.data(), 300);
    grown.write(0, bytes.data(), 300);  // again
    EXPECT_EQ(peak_scratch_bytes(), 1600);
  }
  kept.hold(50);
  begin_peak_scratch_bytes();  // some are held
  EXPECT_EQ(peak_scratch_bytes(), 1600);
  kept.hold(0);
  begin_peak_scratch_bytes();
  EXPECT_EQ(peak_scratch_bytes(), 0);
  fs::remove(fresh("scratch_d"));
  fs::remove(fresh("scratch_e"));
}

TEST(ScratchFile, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(ScratchFile(fresh("scratch_b") / "file", 10), std::system_error);
}

TEST(ScratchFile, ADiskThatIsTooSmallIsAnErrorAtOnceAndLeavesNothing) {
  const fs::path path = fresh("scratch_c");
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(ScratchFile(path, 8192), std::system_error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace vggt
