#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/files/machine_share.h"

namespace vggt {
namespace {

TEST(MachineShare, QuotaOfAControlGroupLeavesCoresRoundedUp) {
  EXPECT_EQ(cores_of_quota("200000 100000", 16), 2);
  EXPECT_EQ(cores_of_quota("150000 100000\n", 16), 2);
  EXPECT_EQ(cores_of_quota("5000 100000", 16), 1);
  EXPECT_EQ(cores_of_quota("3200000 100000", 16), 16);
}

TEST(MachineShare, TextsWithoutAQuotaLimitNothing) {
  for (const char* text : {"", "max 100000", "max", "0 100000", "-1 100000", "100000 0", "100000", "nan 1"})
    EXPECT_EQ(cores_of_quota(text, 7), 7) << text;
  EXPECT_EQ(cores_of_quota("1e300 1", 7), 7);
}

TEST(MachineShare, GroupsAreTheProcessesOwnAndThoseAboveIt) {
  using Paths = std::vector<std::filesystem::path>;
  const auto groups_of = [](const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "cgroup";
    std::ofstream(file) << text;
    return control_groups(file, "/groups");
  };
  EXPECT_EQ(groups_of("0::/slurm/job_7/step_0\n"),
            (Paths{"/groups/slurm/job_7/step_0", "/groups/slurm/job_7", "/groups/slurm", "/groups"}));
  EXPECT_EQ(groups_of("12:memory:/old\n1:name=systemd:/x\n0::/\n"), Paths{"/groups"});
  EXPECT_EQ(groups_of(""), Paths{"/groups"});
  EXPECT_EQ(control_groups("/no/such/file", "/groups"), Paths{"/groups"});
}

TEST(MachineShare, AffinityCounts) {
  const auto cores_on_one = [] {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (::sched_getaffinity(0, sizeof all, &all) != 0) std::_Exit(100);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    if (::sched_setaffinity(0, sizeof one, &one) != 0) std::_Exit(101);
    std::_Exit(static_cast<int>(usable_cores()));
  };
  EXPECT_EXIT(cores_on_one(), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace vggt
