#include "app/run/memory_limits.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "app/run/device.h"
#include "io/files/machine_share.h"
#include "io/frames/frames.h"
#include "model/ranks/nccl_group.h"

namespace vggt {
namespace {

// What the process takes on a GPU beside LibTorch's allocator: the CUDA context, code of kernels, workspaces
// of libraries. Measured on an H200; fragments are LibTorch's reserve that no tensor of ours can use.
constexpr int64_t kGpuProgramBytes = 750'000'000;
constexpr double kFragments = 0.05;
// And on the host: libraries, decoders, kernels' tables with up to kFewThreads and of each more; CUDA's
// libraries; and what CUDA keeps there.
constexpr int64_t kHostProgramBytes = 405'000'000, kFewThreads = 16, kCudaLibraryBytes = 235'000'000,
                  kHostCudaBytes = 1'860'000'000;

constexpr int64_t kMegabyte = 1'000'000;

/// nccl: bytes of what NCCL takes, among the program's.
int64_t left_of(const char* option, int64_t bytes, int64_t program, int64_t nccl) {
  if (bytes > program) return bytes - program;
  const auto megabytes = [](int64_t some) { return std::to_string(some / kMegabyte) + " MB"; };
  throw std::invalid_argument(std::string(option) + ": the program itself takes " + megabytes(program) +
                              (nccl > 0 ? ", " + megabytes(nccl) + " of them NCCL" : "") +
                              "; expected more, got " +
                              (bytes % kMegabyte == 0 ? megabytes(bytes) : std::to_string(bytes) + " bytes"));
}

int64_t host_program_bytes(const Options& options, at::Device device, int64_t ranks) {
  const int64_t working = working_threads(options.threads),
                more = std::max<int64_t>(0, working - kFewThreads),
                idle = std::max<int64_t>(0, options.threads - working);
  return kHostProgramBytes + cuda_library_bytes() + more * kThreadBytes + idle * kIdleThreadBytes +
         (device.is_cuda() ? kHostCudaBytes : 0) + (ranks > 1 ? kHostNcclBytes : 0);
}

/// Of the bytes that --host-memory leaves, one in so many is for frames and depth maps.
constexpr int64_t kStored = 4;
int64_t stored_bytes(int64_t left) {
  return left / kStored;
}

/// The least --host-memory within which a request fits.
std::optional<int64_t> least_megabytes(const MemoryLimits& limits, const MemoryRequest& request) {
  constexpr int64_t kMost = 10'000'000;
  const auto fits = [&](int64_t megabytes) {
    MemoryRequest tried = request;
    const int64_t left = limits.shared() + (megabytes * kMegabyte - *limits.host) / limits.parts;
    tried.budget = limits.network_of(left);
    tried.budget.device = request.budget.device;
    return limits.stored.all <= left && plan_memory(tried).fits;
  };
  const int64_t from = std::max(*limits.host, limits.least * kMegabyte);
  int64_t low = std::max((from + kMegabyte - 1) / kMegabyte, int64_t{1}), high = low;
  while (!fits(high)) {
    low = high + 1;
    high *= 2;
    if (high > kMost) return std::nullopt;
  }
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const bool is_enough = fits(middle);
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
  }
  return high;
}

}  // namespace

NcclBuffers nccl_buffers(const Options& options) {
  return options.gpu_memory.empty() ? NcclBuffers::many : NcclBuffers::few;
}

MemoryLimits choose_limits(const Options& options, at::Device device, int64_t loaded, int64_t ranks) {
  program_bytes();  // before anything else is in memory
  MemoryLimits limits;
  const int64_t nccl = ranks > 1 ? nccl_device_bytes(ranks, nccl_buffers(options)) : 0;
  const auto gpu = parse_bytes(options.gpu_memory, "gpu-memory");
  const auto host = parse_bytes(options.host_memory, "host-memory");
  if (gpu && !device.is_cuda()) throw std::invalid_argument("gpu-memory: the run is on the CPU");
  if (gpu) {
    limits.gpu_allocator = left_of("gpu-memory", *gpu, kGpuProgramBytes + nccl, nccl);
    limits.network.device =
        static_cast<int64_t>((1 - kFragments) * static_cast<double>(*limits.gpu_allocator));
  } else if (device.is_cuda()) {
    const int64_t free = std::max<int64_t>(0, free_bytes(device) + loaded - nccl);
    limits.network.device = static_cast<int64_t>((1 - kFragments) * static_cast<double>(free));
  }
  if (!options.scratch.empty()) {
    if (!std::filesystem::is_directory(options.scratch))
      throw std::invalid_argument(
          "scratch: no folder can be made in " + options.scratch +
          (std::filesystem::exists(options.scratch) ? ": it is no folder" : ": it does not exist"));
    if (::access(options.scratch.c_str(), W_OK | X_OK) != 0)
      throw std::invalid_argument("scratch: no folder can be made in " + options.scratch + ": " +
                                  std::generic_category().message(errno));
    limits.network.scratch = limits.storage.scratch = options.scratch;
  }
  if (!host) return limits;
  limits.host = host;
  const int64_t left = left_of("host-memory", *host, host_program_bytes(options, device, ranks),
                               ranks > 1 ? kHostNcclBytes : 0);
  limits.storage.bytes = stored_bytes(left);
  limits.network.host = limits.images = left - limits.storage.bytes;
  return limits;
}

std::optional<std::string> least_host_memory(const MemoryLimits& limits, const MemoryRequest& request,
                                             bool or_exact) {
  constexpr double kLittleMore = 1.05;  // for which it is better exact
  if (!limits.host) return std::nullopt;
  auto least = least_megabytes(limits, request);
  MemoryRequest exact = request;
  exact.merge.reset();
  if (const auto more = or_exact && request.merge ? least_megabytes(limits, exact) : std::nullopt) {
    if (!least || static_cast<double>(*more) <= kLittleMore * static_cast<double>(*least)) least = more;
  }
  return least ? std::optional(std::to_string(*least) + "MB") : std::nullopt;
}

int64_t working_threads(int64_t threads) {
  const int64_t cores = usable_cores();
  return threads > 0 ? std::min(threads, cores) : cores;
}

void give_back_memory() {
  ::malloc_trim(0);
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t program_bytes() {
  static const int64_t first = resident_bytes();
  return first;
}

int64_t cuda_library_bytes() {
  return at::CUDAHooksRegistry()->Has("CUDAHooks") ? kCudaLibraryBytes : 0;  // which registers when loaded
}

std::optional<int64_t> free_host_bytes() {
  std::optional<int64_t> free;
  std::ifstream memory("/proc/meminfo");
  for (std::string name; memory >> name;) {
    int64_t kilobytes = 0;
    if (name == "MemAvailable:" && memory >> kilobytes) free = kilobytes * 1024;
  }
  const auto number_in = [](const std::filesystem::path& file) {
    int64_t bytes = 0;
    return std::ifstream(file) >> bytes ? std::optional(bytes) : std::nullopt;  // "max": no limit
  };
  const auto at_most = [&](int64_t bytes) {
    free = std::max<int64_t>(0, std::min(free.value_or(bytes), bytes));
  };
  for (const std::filesystem::path& group : control_groups()) {
    const auto most = number_in(group / "memory.max"), used = number_in(group / "memory.current");
    if (!most || !used) continue;
    // Copies of files that the system drops where memory is wanted count as used, too.
    int64_t dropped = 0, bytes = 0;
    std::ifstream parts(group / "memory.stat");
    for (std::string name; parts >> name >> bytes;) {
      if (name == "inactive_file") dropped = bytes;
    }
    at_most(*most - *used + dropped);
  }
  rlimit limit{};
  int64_t pages = 0;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      std::ifstream("/proc/self/statm") >> pages) {
    at_most(static_cast<int64_t>(limit.rlim_cur) - pages * ::sysconf(_SC_PAGESIZE));
  }
  return free;
}

void keep_weights(MemoryLimits& limits, int64_t bytes) {
  if (limits.host) limits.images -= bytes;
}

std::size_t decoding_bytes(const MemoryLimits& limits) {
  const auto most = static_cast<int64_t>(FrameOptions().memory_budget_bytes);
  return static_cast<std::size_t>(std::clamp<int64_t>(limits.images, 0, most));
}

int64_t MemoryLimits::shared() const {
  return storage.bytes + network.host;
}

int64_t MemoryLimits::for_network() const {
  return shared() - stored_bytes(shared());
}

MemoryBudget MemoryLimits::network_of(int64_t shared) const {
  MemoryBudget budget = network;
  const int64_t held = std::min(shared, std::max(stored_bytes(shared), stored.all));
  budget.host = shared - held;
  budget.more_in_trunk = stored.all > 0 ? std::max<int64_t>(0, held - stored.in_trunk) : 0;
  budget.more_in_heads = stored.all > 0 ? std::max<int64_t>(0, held - stored.in_heads) : 0;
  return budget;
}

void MemoryLimits::hold_in_memory(const StoredBytes& bytes) {
  if (!host || storage.scratch) return;
  stored = bytes;
  const MemoryBudget budget = network_of(shared());
  const int64_t more = network.host - budget.host;
  network = budget;
  storage.bytes += more;
  images -= more;
}

std::string MemoryLimits::host_memory_for(int64_t image_bytes) const {
  return std::to_string(host_megabytes_for(image_bytes)) + "MB";
}

int64_t MemoryLimits::host_megabytes_for(int64_t image_bytes) const {
  const int64_t not_stored = image_bytes + network.host - images;  // with the weights
  const int64_t needed = std::max(not_stored + stored.all, not_stored + not_stored / (kStored - 1) + 1);
  const int64_t bytes = host.value_or(0) + parts * std::max<int64_t>(0, needed - shared());
  return (bytes + kMegabyte - 1) / kMegabyte;
}

}  // namespace vggt
