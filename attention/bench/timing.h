#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vggt {

/// Seconds per call over `calls` calls; on a GPU by its own clock.
double seconds_per_call(at::Device device, const std::function<void()>& call, int64_t calls = 1);

/// The most memory in use during `act` above that in use before, in bytes: of LibTorch's allocator on a GPU,
/// of the process on a CPU. Nothing where the system does not say.
std::optional<double> peak_bytes_of(at::Device device, const std::function<void()>& act);

/// The bytes that a file of "Name: N kB" lines, such as /proc/meminfo, has for `name`; nothing where it has
/// no such line.
std::optional<double> bytes_in(const char* file, const std::string& name);

/// The value at this share of the sorted ones, by nearest rank. There is at least one.
double percentile(std::vector<double> values, double share);

inline double median(const std::vector<double>& values) {
  return percentile(values, 0.5);
}
/// Interquartile range over median.
double spread(const std::vector<double>& values);

/// Times several calls in turns, in `repeat` rounds, or fewer (but 2) where `seconds` would be exceeded.
/// Entry i holds the seconds per call of calls[i] in each round; it is empty where calls[i] failed, which
/// on_failure is told.
struct Turns {
  at::Device device;
  int repeat = 7;
  double seconds = 30;
  std::vector<std::vector<double>> time(
      const std::vector<std::function<void()>>& calls,
      const std::function<void(std::size_t, const std::string&)>& on_failure) const;
};

}  // namespace vggt
