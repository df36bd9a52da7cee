#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// What the system leaves this process of the machine.
namespace vggt {

/// How many cores this process may use, at least 1: those of its affinity (taskset, cpusets of containers and
/// of Slurm), or fewer where a control group leaves time for fewer. As it was when first asked.
int64_t usable_cores();

/// The cores whose time such a text of a control group's cpu.max leaves, rounded up: "200000 100000"
/// leaves 2. At most `cores`, also where the text sets no limit ("max 100000") or is no such text.
int64_t cores_of_quota(const std::string& cpu_max, int64_t cores);

/// The folders of the control groups that a process is in, its own first: of `root`, and of what
/// /proc/self/cgroup says of version 2 ("0::/slurm/job_7"). Only `root` where it says nothing.
std::vector<std::filesystem::path> control_groups(
    const std::filesystem::path& process_file = "/proc/self/cgroup",
    const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace vggt
