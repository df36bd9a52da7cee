#include "attention/bench/lean_table.h"

#include <algorithm>
#include <chrono>

#include "attention/attention.h"
#include "attention/bench/attempt.h"
#include "attention/bench/inputs.h"
#include "attention/bench/table.h"
#include "attention/bench/timing.h"
#include "attention/stream/lean.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

/// x in the memory that lean streams it from: for a GPU the host's pinned memory.
at::Tensor on_host(const at::Tensor& x) {
  return x.is_cpu() ? x : x.cpu().pin_memory();
}

/// The round of median length.
LeanTimes median_round(const AttentionInputs& x, const at::Tensor& k, const at::Tensor& v, int64_t eta,
                       const AttentionBenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<LeanTimes> rounds;
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (std::ssize(rounds) < std::max(2, options.repeat) && (rounds.size() < 2 || spent() < options.seconds))
    attention_lean(x.q, k, v, eta, {}, &rounds.emplace_back());
  std::ranges::sort(rounds, {}, &LeanTimes::total_ms);
  return rounds[(rounds.size() - 1) / 2];
}

ordered_json measure(const std::string& type, int64_t n, int64_t eta, const AttentionBenchOptions& options,
                     at::Device device) {
  constexpr int64_t kRows = 64;
  const int64_t heads = options.heads.value_or(16);
  ordered_json row = {{"type", type}, {"heads", heads}, {"length", n}, {"dim", options.dim}, {"eta", eta}};
  const std::string failure = attempt([&] {
    const AttentionInputs x = normal_inputs({n}, heads, options.dim, bench_type(type), device);
    const at::Tensor k = on_host(x.k), v = on_host(x.v);
    at::Tensor out;
    const auto bytes = peak_bytes_of(device, [&] { out = attention_lean(x.q, k, v, eta).out; });
    const double error = sample_exactly(x, kRows).error_of(out);
    const LeanTimes times = median_round(x, k, v, eta, options);
    attention(x.q, x.k, x.v);
    const double whole = seconds_per_call(device, [&] { attention(x.q, x.k, x.v); });
    row["milliseconds"] = times.total_ms;
    row["copy_milliseconds"] = times.copy_ms;
    row["compute_milliseconds"] = times.compute_ms;
    row["wait_milliseconds"] = times.wait_ms;
    row["overlap_efficiency"] = times.overlap_efficiency();
    row["ratio"] = 1e3 * whole / times.total_ms;
    row["error"] = error;
    const auto output = static_cast<double>(out.numel() * out.element_size());
    row["extra_bytes"] = bytes ? ordered_json(std::max(0.0, *bytes - output)) : ordered_json();
  });
  if (!failure.empty()) row["failure"] = failure;
  return row;
}

std::string text_of(const ordered_json& row) {
  const std::string text =
      formatted("%-5s %4s %8s %8s", row["type"].get<std::string>().c_str(), row["heads"].dump().c_str(),
                row["length"].dump().c_str(), row["eta"].dump().c_str());
  if (row.contains("failure")) return text + " " + row["failure"].get<std::string>().substr(0, 200) + "\n";
  const auto number = [&](const char* name) { return row[name].get<double>(); };
  const ordered_json& extra = row["extra_bytes"];
  return text +
         formatted(" %10.3f %10.3f %10.3f %10.3f %7.3f %6.2f %9.1e", number("milliseconds"),
                   number("copy_milliseconds"), number("compute_milliseconds"), number("wait_milliseconds"),
                   number("overlap_efficiency"), number("ratio"), number("error")) +
         (extra.is_null() ? "         -" : formatted(" %9.1f", extra.get<double>() / 1e6)) + "\n";
}

}  // namespace

ordered_json lean_table(const AttentionBenchOptions& options, at::Device device, const Print& print) {
  ordered_json rows = ordered_json::array();
  if (!wants_group(options, "lean")) return rows;
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty())
    lengths = device.is_cuda() ? std::vector<int64_t>{16656, 104100} : std::vector<int64_t>{4164};
  print(
      "\nlean: keys and values streamed from host memory, eta at a time. overlap: 1 - wait/total. ratio: "
      "time of one call\nover all keys on the device over this one's.\n");
  print(formatted("%-5s %4s %8s %8s %10s %10s %10s %10s %7s %6s %9s %9s\n", "type", "A", "N", "eta",
                  "total ms", "copy", "compute", "wait", "overlap", "ratio", "error", "extra MB"));
  for (const std::string& type : types_of(options, device)) {
    for (int64_t n : lengths) {
      for (int64_t parts : {16, 4, 1}) {
        rows.push_back(measure(type, n, std::max<int64_t>(1, (n + parts - 1) / parts), options, device));
        print(text_of(rows.back()));
      }
    }
  }
  return rows;
}

}  // namespace vggt
