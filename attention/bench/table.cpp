#include "attention/bench/table.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "attention/bench/attempt.h"
#include "attention/bench/contenders.h"
#include "attention/bench/entries.h"
#include "attention/bench/timing.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAutomatic = "auto";

/// Rows of the table with the same inputs.
struct Case {
  const char* group;
  std::vector<int64_t> lengths;  // of the sequences
  int64_t heads;
};

ordered_json row_of(const Case& c, const std::string& type, int64_t dim, const Entry& entry, double flops,
                    double best_peer) {
  ordered_json row = {{"group", c.group}, {"type", type},         {"heads", c.heads},  {"lengths", c.lengths},
                      {"dim", dim},       {"kernel", entry.name}, {"ours", entry.ours}};
  if (!entry.failure.empty()) {
    row["failure"] = entry.failure;
    return row;
  }
  const double seconds = median(entry.seconds);
  row["rounds"] = entry.seconds.size();
  row["milliseconds"] = 1e3 * seconds;
  row["spread"] = spread(entry.seconds);
  row["tflops"] = 1e-12 * flops / seconds;
  row["ratio"] = best_peer / seconds;  // not a number where no peer ran: null
  row["error"] = entry.error;
  row["extra_bytes"] = entry.extra_bytes ? ordered_json(*entry.extra_bytes) : ordered_json();
  return row;
}

std::string text_of(const ordered_json& row) {
  const auto& lengths = row["lengths"];
  const std::string n = lengths.size() == 1 ? lengths[0].dump() : lengths.dump().substr(0, 6) + "..]";
  std::string text = formatted("%-9s %-5s %4s %8s %4s %-14s", row["group"].get<std::string>().c_str(),
                               row["type"].get<std::string>().c_str(), row["heads"].dump().c_str(), n.c_str(),
                               row["dim"].dump().c_str(), row["kernel"].get<std::string>().c_str());
  if (row.contains("failure")) return text + " " + row["failure"].get<std::string>().substr(0, 200) + "\n";
  text += formatted(" %11.3f %5.1f%% %8.3f %7.2f %9.1e", row["milliseconds"].get<double>(),
                    100 * row["spread"].get<double>(), row["tflops"].get<double>(),
                    row["ratio"].get<double>(), row["error"].get<double>());
  const ordered_json& extra = row["extra_bytes"];
  text += extra.is_null() ? "         -" : formatted(" %9.1f", extra.get<double>() / 1e6);
  return text + (row.contains("taken") ? "  " + row["taken"].get<std::string>() : "") + "\n";
}

ordered_json compare(const Case& c, const std::string& type_name, const AttentionBenchOptions& options,
                     at::Device device, const Print& print) {
  constexpr int64_t kRows = 64;
  const at::ScalarType type = bench_type(type_name);
  std::vector<Entry> entries = entries_for(device, type, options.dim, options.variants);
  const AutomaticKernel automatic = automatic_kernel(device);
  std::string taken;
  if (options.variants.empty()) {
    Entry entry;
    entry.name = kAutomatic;
    entry.ours = true;
    entry.run = automatic.run;
    entries.insert(std::ranges::find(entries, false, &Entry::ours), entry);
  }
  const std::string failure = attempt([&] {
    const AttentionInputs x = normal_inputs(c.lengths, c.heads, options.dim, type, device);
    const SampledRows sample = sample_exactly(x, c.lengths.size() == 1 ? kRows : kRows / 8);
    for (Entry& entry : entries) {
      if (entry.name == kAutomatic) attempt([&] { entry.run(x); });  // measures, which takes memory of its own
      if (entry.failure.empty()) try_out(entry, x, sample);
    }
    time_all(entries, x, {device, options.repeat, options.seconds});
    taken = automatic.taken(x);
  });
  double best_peer = NAN, flops = 0;
  for (Entry& entry : entries) {
    if (entry.failure.empty()) entry.failure = failure;  // the inputs failed, so nothing has run
    if (!entry.ours && entry.failure.empty()) best_peer = std::fmin(best_peer, median(entry.seconds));
  }
  for (int64_t n : c.lengths)
    flops += 4 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(c.heads * options.dim);
  ordered_json rows = ordered_json::array();
  for (const Entry& entry : entries) {
    rows.push_back(row_of(c, type_name, options.dim, entry, flops, best_peer));
    if (entry.name == kAutomatic && entry.failure.empty()) rows.back()["taken"] = taken;
    print(text_of(rows.back()));
  }
  return rows;
}

/// The packed sequences of ELSA's benchmark: 8 of 256 to 1792 tokens.
std::vector<int64_t> packed_lengths() {
  std::mt19937 generator(0);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 8; ++i) lengths.push_back(256 + generator() % 1537);
  return lengths;
}

std::vector<Case> cases_of(const AttentionBenchOptions& options, at::Device device) {
  const int64_t heads = options.heads.value_or(16);
  std::vector<Case> cases;
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty())
    lengths = device.is_cuda() ? std::vector<int64_t>{1041, 4164, 16656, 104100, 416400}
                               : std::vector<int64_t>{256, 1041, 4164};
  if (wants_group(options, "lengths")) {
    for (int64_t n : lengths) cases.push_back({"lengths", {n}, heads});
  }
  if (wants_group(options, "one-head")) {
    for (int64_t n : {1024, 4096, 16384}) cases.push_back({"one-head", {n}, 1});
  }
  if (wants_group(options, "packed")) cases.push_back({"packed", packed_lengths(), heads});
  return cases;
}

}  // namespace

std::vector<std::string> types_of(const AttentionBenchOptions& options, at::Device device) {
  if (!options.types.empty()) return options.types;
  return device.is_cuda() ? std::vector<std::string>{"fp32", "bf16", "fp16"}
                          : std::vector<std::string>{"fp32"};
}

ordered_json attention_table(const AttentionBenchOptions& options, at::Device device, const Print& print) {
  ordered_json rows = ordered_json::array();
  const std::vector<Case> cases = cases_of(options, device);
  if (cases.empty()) return rows;
  print(
      "spread: interquartile range over median. ratio: time of LibTorch's fastest over this one's.\n"
      "error: 2-norm against float64, sampled rows. extra: most memory at a time, besides the output.\n");
  print(formatted("%-9s %-5s %4s %8s %4s %-14s %11s %6s %8s %7s %9s %9s\n", "group", "type", "A", "N", "D",
                  "kernel", "ms", "spread", "TFLOP/s", "ratio", "error", "extra MB"));
  for (const std::string& type : types_of(options, device)) {
    for (const Case& c : cases) {
      for (ordered_json& row : compare(c, type, options, device, print)) rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace vggt
