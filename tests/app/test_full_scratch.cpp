// A scratch disk that fills up in the middle of a run: lack of resources, and nothing stays.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

/// No file of this process and of those that it starts becomes larger, while it lives: a disk that is full
/// for large files alone.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    const rlimit limit{bytes, old_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit old_{};
};

struct FullDisk {
  const char* file;         // of the scratch folder, which has no room
  const char* host_memory;  // with which the run needs that file
  rlim_t bytes;             // that a file may have
  friend std::ostream& operator<<(std::ostream& out, const FullDisk& d) { return out << d.file; }
};

class FullScratch : public CliTest, public ::testing::WithParamInterface<FullDisk> {};

TEST_P(FullScratch, IsALackOfResourcesAndLeavesNothing) {
  fs::create_directory(dir_ / "large");
  fs::create_directory(dir_ / "scratch");
  fs::create_directory(dir_ / "kept");
  write(dir_ / "kept/scene.tum", "old\n");
  for (int i = 0; i < 30; ++i) make_image("large/" + std::to_string(i) + ".png", 518, 392, i);
  Outcome outcome;
  {
    const FileLimit limit(GetParam().bytes);
    outcome = reconstruct(
        "--frames large --width 518 --no-autotune --merge off --points head --out kept/ --scratch scratch "
        "--host-memory " +
            std::string(GetParam().host_memory),
        "OMP_NUM_THREADS=1");
  }
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  expect_one_error(outcome, std::string("/") + GetParam().file + ": cannot");
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
  EXPECT_EQ(names_in("kept"), std::vector<std::string>{"scene.tum"});
  EXPECT_EQ(text_of(path("kept/scene.tum")), "old\n");
}

// The frames' pixels; the residual stream; keys and values; depth and points.
INSTANTIATE_TEST_SUITE_P(Files, FullScratch,
                         ::testing::Values(FullDisk{"frames", "457MB", 100'000},
                                           FullDisk{"residual", "465MB", 4'000'000},
                                           FullDisk{"keys", "465MB", 9'000'000},
                                           FullDisk{"scene", "465MB", 30'000'000}),
                         [](const auto& info) { return std::string(info.param.file); });

}  // namespace
}  // namespace vggt::test
