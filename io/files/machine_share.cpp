#include "io/files/machine_share.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

namespace vggt {
namespace {

namespace fs = std::filesystem;

int64_t cores_of_affinity() {
  const int64_t all = std::max(1U, std::thread::hardware_concurrency());
  cpu_set_t cores;  // of up to 1024; with more the call fails
  if (::sched_getaffinity(::getpid(), sizeof cores, &cores) != 0) return all;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace

int64_t cores_of_quota(const std::string& cpu_max, int64_t cores) {
  double quota = 0, period = 0;
  if (std::sscanf(cpu_max.c_str(), "%lf %lf", &quota, &period) != 2 || !(quota > 0) || !(period > 0))
    return cores;
  return std::clamp(static_cast<int64_t>(std::ceil(std::min(quota / period, 1e6))), int64_t{1}, cores);
}

std::vector<fs::path> control_groups(const fs::path& process_file, const fs::path& root) {
  std::vector<fs::path> groups;
  std::ifstream lines(process_file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0::/")) continue;
    for (fs::path group = line.substr(4); !group.empty(); group = group.parent_path())
      groups.push_back(root / group);
  }
  groups.push_back(root);
  return groups;
}

int64_t usable_cores() {
  // Once: later OpenMP may have bound the calling thread to a core of its own.
  static const int64_t usable = [] {
    int64_t cores = cores_of_affinity();
    for (const fs::path& group : control_groups()) {
      std::string quota;
      std::ifstream limit(group / "cpu.max");
      if (std::getline(limit, quota)) cores = cores_of_quota(quota, cores);
    }
    return cores;
  }();
  return usable;
}

}  // namespace vggt
