// A run whose frames and maps lie in a scratch folder writes the same bytes, and leaves nothing there.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "app/run/reconstruct.h"
#include "io/files/system_fault.h"
#include "tests/support/runs.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::golden_model;
using testing::small_model;

class HostStorageTest : public ::testing::Test {
 protected:
  HostStorageTest() {
    std::string name = (fs::temp_directory_path() / "vggt_storage_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    fs::create_directory(dir_ / "scratch");
  }
  ~HostStorageTest() override { fs::remove_all(dir_); }

  RunPlan plan(Options options, const std::string& folder, int64_t bytes) const {
    options.device = "cpu";
    options.out = (dir_ / folder).string() + "/";
    options.save_predictions = (dir_ / folder / "p.safetensors").string();
    RunPlan result = plan_run(options);
    result.limits.storage = {bytes, dir_ / "scratch"};
    return result;
  }
  testing::Files files_of(const std::string& folder) const { return testing::files_in(dir_ / folder); }
  bool scratch_is_empty() const { return fs::is_empty(dir_ / "scratch"); }

  fs::path dir_;
};

TEST_F(HostStorageTest, TheSameFilesFromScratch) {
  Options adjusted = small_model(), masked = small_model();
  adjusted.bundle_adjust = "on";
  masked.bundle_adjust = "off";
  masked.mask_black = true;
  masked.max_points = 500;
  int number = 0;
  for (const Options& options : {adjusted, masked, golden_model()}) {
    const std::string memory = "memory" + std::to_string(number), disk = "disk" + std::to_string(number);
    ++number;
    reconstruct(plan(options, memory, int64_t{1} << 40), {});
    reconstruct(plan(options, disk, 0), {});
    const auto expected = files_of(memory), got = files_of(disk);
    EXPECT_GE(expected.size(), 4U);
    for (const auto& [name, bytes] : expected)
      EXPECT_TRUE(got.contains(name) && got.at(name) == bytes) << number << ": " << name;
    EXPECT_TRUE(scratch_is_empty());
  }
}

TEST_F(HostStorageTest, StoppingLeavesNothing) {
  bool used = false;
  Events events;
  events.on_progress = [&](const std::string& stage, const std::string&, int64_t, int64_t) {
    used = used || !scratch_is_empty();
    if (stage == "depth_head") throw Stopped();
  };
  EXPECT_THROW(reconstruct(plan(small_model(), "out", 0), events), Stopped);
  EXPECT_TRUE(used);
  EXPECT_TRUE(scratch_is_empty());
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

TEST_F(HostStorageTest, AFullScratchDiskIsALackOfResourcesAndLeavesNothing) {
  Options options = small_model();
  const RunPlan full = plan(options, "out", 0);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  Events events;
  events.on_progress = [&](const std::string& stage, const std::string&, int64_t, int64_t) {
    const rlimit small{4096, old.rlim_max};
    if (stage == "aggregator") ::setrlimit(RLIMIT_FSIZE, &small);
  };
  try {
    reconstruct(full, events);
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_EQ(fault_of(error.code()), SystemFault::resources) << error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_TRUE(scratch_is_empty());
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

}  // namespace
}  // namespace vggt
