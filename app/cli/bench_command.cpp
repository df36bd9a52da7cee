#include "app/cli/bench_command.h"

#include <cerrno>
#include <cstdio>
#include <ostream>
#include <stdexcept>
#include <system_error>

#include "app/options/options.h"
#include "app/run/device.h"
#include "attention/bench/bench.h"
#include "io/files/atomic_file.h"
#include "io/files/staged_files.h"

namespace vggt {

namespace {

void write_results(const std::string& path, const std::string& json) {
  if (path.empty()) return;
  write_atomically(path, [&](std::ostream& out) { out << json; });
}

/// Where the bench runs, once its options and its file are known to be right.
at::Device checked_device(const std::string& device, const std::string& json) {
  check_device(device);
  if (!json.empty()) check_writable_file(json);
  return choose_device(device);
}

}  // namespace

void run_bench_command(const BenchCommand& command, const Events& events) {
  auto print = [&](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    events.check_stop();
  };
  if (command.name == "stream") {
    const StreamBenchOptions options = read_stream_bench_options(command.given);
    const at::Device device = checked_device(options.device, options.json);
    write_results(options.json, bench_stream(options, device, print));
    return;
  }
  const AttentionBenchOptions options = read_bench_options(command.given);
  const at::Device device = checked_device(options.device, options.json);
  const AttentionBenchResult result = bench_attention(options, device, print);
  write_results(options.json, result.json);
  if (!result.exceeded.empty()) {
    throw std::runtime_error("bench attention: " + std::to_string(result.exceeded.size()) +
                             " limits are exceeded, first by " + result.exceeded.front());
  }
}

}  // namespace vggt
