#include "attention/bench/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace vggt {
namespace {

template <class T>
T number(const std::string& name, const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw std::invalid_argument("--" + name + ": expected a number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", got '" + text + "'");
  }
  return value;
}

void check_names(const std::string& name, const std::vector<std::string>& values,
                 const std::vector<std::string>& known) {
  for (const std::string& value : values) {
    if (std::ranges::find(known, value) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw std::invalid_argument("--" + name + ": expected " + list + ", got '" + value + "'");
  }
}

}  // namespace

bool wants_group(const AttentionBenchOptions& options, const std::string& group) {
  if (options.groups.empty()) return options.lengths.empty() || group == "lengths";
  return std::ranges::find(options.groups, group) != options.groups.end();
}

AttentionBenchOptions read_bench_options(const std::map<std::string, std::vector<std::string>>& given) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  AttentionBenchOptions options;
  for (const auto& [name, values] : given) {
    if (name == "verify") options.verify = true;
    if (name == "groups") options.groups = values;
    if (name == "type") options.types = values;
    if (name == "variants") options.variants = values;
    if (name == "lengths") {
      for (const std::string& value : values)
        options.lengths.push_back(number(name, value, int64_t{1}, kMost));
    }
    if (values.empty()) continue;
    if (name == "heads") options.heads = number(name, values[0], int64_t{1}, int64_t{4096});
    if (name == "dim") options.dim = number(name, values[0], int64_t{1}, int64_t{256});
    if (name == "repeat") options.repeat = number(name, values[0], 1, 10000);
    if (name == "seconds") options.seconds = number(name, values[0], 0.0, 1e5);
    if (name == "device") options.device = values[0];
    if (name == "json") options.json = values[0];
  }
  check_names("groups", options.groups, {"lengths", "one-head", "packed", "lean", "scan"});
  check_names("type", options.types, {"fp32", "bf16", "fp16"});
  check_names("variants", options.variants,
              {"strict", "split", "turbo", "half", "baseline", "avx2", "avx512", "avx512_bf16"});
  if (options.verify && !options.groups.empty())
    throw std::invalid_argument("--groups: cannot be combined with --verify");
  if (options.verify && !options.lengths.empty() && options.lengths.size() != 3)
    throw std::invalid_argument("--lengths: expected three with --verify, of regular, long and stress");
  return options;
}

StreamBenchOptions read_stream_bench_options(const std::map<std::string, std::vector<std::string>>& given) {
  StreamBenchOptions options;
  for (const auto& [name, values] : given) {
    if (name == "type") options.types = values;
    if (name == "lengths") {
      for (const std::string& value : values)
        options.lengths.push_back(number(name, value, int64_t{1}, int64_t{1'000'000'000}));
    }
    if (values.empty()) continue;
    if (name == "heads") options.heads = number(name, values[0], int64_t{1}, int64_t{4096});
    if (name == "dim") options.dim = number(name, values[0], int64_t{1}, int64_t{256});
    if (name == "fraction") options.fraction = number(name, values[0], 1e-3, 100.0);
    if (name == "schedule") options.schedule = values[0];
    if (name == "repeat") options.repeat = number(name, values[0], 1, 10000);
    if (name == "device") options.device = values[0];
    if (name == "json") options.json = values[0];
  }
  check_names("type", options.types, {"fp32", "bf16", "fp16"});
  check_names("schedule", {options.schedule}, {"blocked", "quorums", "both"});
  return options;
}

}  // namespace vggt
