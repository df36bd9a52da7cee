#include "attention/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>

#include "attention/bench/attempt.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace vggt {
namespace {

#ifdef VGGT_CUDA
double gpu_seconds(at::Device device, const std::function<void()>& call, int64_t calls) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  c10::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  start.record(stream);
  for (int64_t i = 0; i < calls; ++i) call();
  end.record(stream);
  end.synchronize();
  return 1e-3 * start.elapsed_time(end);
}

double gpu_peak_bytes(at::Device device) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return static_cast<double>(stats.allocated_bytes[0].peak);
}
#endif

constexpr const char* kStatus = "/proc/self/status";

/// Makes Linux count the highest resident size of this process anew.
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return file.good();
}

}  // namespace

std::optional<double> bytes_in(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

double seconds_per_call(at::Device device, const std::function<void()>& call, int64_t calls) {
  const auto count = static_cast<double>(calls);
#ifdef VGGT_CUDA
  if (device.is_cuda()) return gpu_seconds(device, call, calls) / count;
#endif
  TORCH_CHECK(device.is_cpu(), "timing: this build has no CUDA");
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
}

std::optional<double> peak_bytes_of([[maybe_unused]] at::Device device, const std::function<void()>& act) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
    const double before = gpu_peak_bytes(device);
    act();
    return gpu_peak_bytes(device) - before;
  }
#endif
  const bool told = forget_peak();
  const std::optional<double> before = bytes_in(kStatus, "VmRSS");
  act();
  const std::optional<double> peak = bytes_in(kStatus, "VmHWM");
  if (!told || !before || !peak) return std::nullopt;
  return std::max(0.0, *peak - *before);
}

double percentile(std::vector<double> values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const std::size_t at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

double spread(const std::vector<double>& values) {
  return (percentile(values, 0.75) - percentile(values, 0.25)) / median(values);
}

std::vector<std::vector<double>> Turns::time(
    const std::vector<std::function<void()>>& calls,
    const std::function<void(std::size_t, const std::string&)>& on_failure) const {
  constexpr double kLeast = 5e-3;  // seconds of a measurement: the clock's error is below a thousandth
  std::vector<std::vector<double>> seconds(calls.size());
  std::vector<int64_t> counts(calls.size(), 1);
  std::vector<bool> failed(calls.size(), false);
  auto turn = [&](std::size_t i) {
    const std::string failure =
        attempt([&] { seconds[i].push_back(seconds_per_call(device, calls[i], counts[i])); });
    if (failure.empty()) return;
    failed[i] = true;
    seconds[i].clear();
    on_failure(i, failure);
  };
  double round_seconds = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {  // a first round, which only tells how long one takes
    turn(i);
    if (failed[i]) continue;
    counts[i] = std::max<int64_t>(1, static_cast<int64_t>(kLeast / std::max(1e-9, seconds[i][0])));
    round_seconds += static_cast<double>(counts[i]) * seconds[i][0];
    seconds[i].clear();
  }
  const double fit = round_seconds > 0 ? this->seconds / round_seconds : repeat;
  const int rounds = std::min(repeat, static_cast<int>(std::clamp(fit, 2.0, 1e6)));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!failed[i]) turn(i);
    }
  }
  return seconds;
}

}  // namespace vggt
