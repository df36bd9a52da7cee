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

void run_bench_command(const BenchCommand& command, const Events& events) {
  const AttentionBenchOptions options = read_bench_options(command.given);
  auto print = [&](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    events.check_stop();
  };
  check_device(options.device);
  if (!options.json.empty()) check_writable({options.json});
  const AttentionBenchResult result = bench_attention(options, choose_device(options.device), print);
  if (!options.json.empty()) {
    write_atomically(options.json, [&](std::ostream& out) { out << result.json; });
  }
  if (!result.exceeded.empty()) {
    throw std::runtime_error("bench attention: " + std::to_string(result.exceeded.size()) +
                             " limits are exceeded, first by " + result.exceeded.front());
  }
}

}  // namespace vggt
