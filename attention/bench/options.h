#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vggt {

/// An option of `bench attention`. values: the number of values that follow its name.
struct AttentionBenchOption {
  const char* name;
  enum Values { none, one, many } values;
  const char* help;
};

inline constexpr AttentionBenchOption kAttentionBenchOptions[] = {
    {"verify", AttentionBenchOption::none,
     "measure exactness instead of time; exit 1 where a limit is exceeded"},
    {"groups", AttentionBenchOption::many,
     "rows to print: lengths, one-head, packed, lean, scan [all; with --lengths only lengths]"},
    {"lengths", AttentionBenchOption::many,
     "numbers of tokens; with --verify three, for regular, long and stress [1024 8192 4096]"},
    {"heads", AttentionBenchOption::one, "number of heads [16; with --verify 2]"},
    {"dim", AttentionBenchOption::one, "size of a head [64]"},
    {"type", AttentionBenchOption::many, "fp32, bf16, fp16 [all; on a CPU fp32]"},
    {"variants", AttentionBenchOption::many, "which of our kernels take part [all that can run here]"},
    {"repeat", AttentionBenchOption::one,
     "number of rounds, in each of which every kernel is timed once [7]"},
    {"seconds", AttentionBenchOption::one, "time for the rounds of one length; 2 rounds at least [30]"},
    {"device", AttentionBenchOption::one, "auto, cpu or cuda:N [auto]"},
    {"json", AttentionBenchOption::one, "also write the numbers to this file"},
};

struct AttentionBenchOptions {
  bool verify = false;
  std::vector<std::string> groups, types, variants;  // empty: the default
  std::vector<int64_t> lengths;
  std::optional<int64_t> heads;
  int64_t dim = 64;
  int repeat = 7;
  double seconds = 30;
  std::string device = "auto", json;
};

/// Whether this group of rows is asked for. Without --groups all groups are, but with --lengths only
/// `lengths` is.
bool wants_group(const AttentionBenchOptions& options, const std::string& group);

/// The options from their values by name. Throws std::invalid_argument naming option and value.
AttentionBenchOptions read_bench_options(const std::map<std::string, std::vector<std::string>>& given);

// The options of `bench stream`.
inline constexpr AttentionBenchOption kStreamBenchOptions[] = {
    {"lengths", AttentionBenchOption::many,
     "numbers of tokens [100000 200000 400000 1000000; on a CPU 2000 4000]"},
    {"heads", AttentionBenchOption::one, "number of heads [16]"},
    {"dim", AttentionBenchOption::one, "size of a head [64]"},
    {"type", AttentionBenchOption::many, "fp32, bf16, fp16 [bf16; on a CPU fp32]"},
    {"fraction", AttentionBenchOption::one,
     "memory of the device, of what q, k, v and the output take there [0.25]"},
    {"schedule", AttentionBenchOption::one, "blocked, quorums or both [both]"},
    {"repeat", AttentionBenchOption::one, "runs of each, the median counts; one where they are long [3]"},
    {"device", AttentionBenchOption::one, "auto, cpu or cuda:N [auto]"},
    {"json", AttentionBenchOption::one, "also write the numbers to this file"},
};

struct StreamBenchOptions {
  std::vector<int64_t> lengths;
  std::vector<std::string> types;
  int64_t heads = 16, dim = 64;
  double fraction = 0.25;
  std::string schedule = "both";
  int repeat = 3;
  std::string device = "auto", json;
};

/// As read_bench_options().
StreamBenchOptions read_stream_bench_options(const std::map<std::string, std::vector<std::string>>& given);

}  // namespace vggt
