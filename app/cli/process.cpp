#include "app/cli/process.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <future>
#include <opencv2/core/utility.hpp>
#include <thread>
#include <vector>

#include "io/files/machine_share.h"
#ifdef VGGT_CUDA
#include <c10/core/AllocatorConfig.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

/// Whether the system has memory and numbers for so many threads at once.
bool can_start(int threads) {
  std::vector<std::jthread> waiting;
  std::promise<void> all;  // gone before the threads are joined, which ends their waiting
  const std::shared_future<void> started = all.get_future().share();
  try {
    while (static_cast<int>(waiting.size()) < threads) waiting.emplace_back([started] { started.wait(); });
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
    return false;
  }
  return true;
}

/// Whether `ulimit -v` sets a limit.
bool has_few_addresses() {
  rlimit addresses{};
  return ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
}

/// While there is memory for them: later OpenCV would wait without end for threads that cannot start.
void start_threads_of_opencv() {
  if (!can_start(cv::getNumThreads())) cv::setNumThreads(1);
  cv::parallel_for_({0, cv::getNumThreads()}, [](const cv::Range&) {});
}

}  // namespace

void set_process_threads(int64_t threads) {
  if (has_few_addresses()) ::mallopt(M_ARENA_MAX, 2);  // each takes 64 MiB of them, for a thread or two
  const int64_t cores = usable_cores();
  if (threads > 0) {
    at::set_num_threads(static_cast<int>(threads));
    // TBB, which OpenCV may stand on, warns of more than there are cores, and starts no more.
    cv::setNumThreads(static_cast<int>(std::min(threads, cores)));
  } else {  // neither knows of a control group's time
    if (at::get_num_threads() > cores) at::set_num_threads(static_cast<int>(cores));
    if (cv::getNumThreads() > cores) cv::setNumThreads(static_cast<int>(cores));
  }
  start_threads_of_opencv();
}

void set_process_precision(Precision precision) {
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::tf32);
}

void set_process_host_memory(bool limited) {
  // Each thread's arena keeps blocks below the threshold, which malloc would otherwise raise to 32 MiB.
  constexpr int kOwnMapping = 1 << 20;
  if (limited || has_few_addresses()) ::mallopt(M_MMAP_THRESHOLD, kOwnMapping);
}

void set_process_gpu_memory([[maybe_unused]] at::Device device,
                            [[maybe_unused]] const std::optional<int64_t>& bytes) {
#ifdef VGGT_CUDA
  if (!bytes) return;
  // Segments that grow leave few fragments.
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  std::size_t free = 0, total = 0;
  const c10::DeviceGuard guard(device);
  if (cudaMemGetInfo(&free, &total) != cudaSuccess || total == 0) return;  // the run says why
  // The driver keeps a stack for every thread that the GPU can hold: a quarter of a gigabyte for CUDA's
  // default of 1024 bytes. Kernels that need more than the limit get it.
  constexpr std::size_t kStackBytes = 128;
  cudaDeviceSetLimit(cudaLimitStackSize, kStackBytes);
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      std::min(1.0, static_cast<double>(*bytes) / static_cast<double>(total)), device.index());
#endif
}

}  // namespace vggt
