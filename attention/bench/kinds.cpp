#include "attention/bench/kinds.h"

#include <ATen/Context.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention/bench/attempt.h"
#include "attention/bench/entries.h"
#include "attention/bench/limits.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kHeads = 16, kDim = 64;
constexpr double kMostLogitBytes = 2e9;  // of LibTorch's definition, which holds all weights at once

/// LibTorch's definition with products in TF32: the one of its ways that is no more exact than turbo.
Entry math_in_tf32() {
  Entry entry;
  entry.name = "math, TF32";
  entry.run = [](const AttentionInputs& x) {
    at::globalContext().setAllowTF32CuBLAS(true);
    at::Tensor out;
    const std::string failure =
        attempt([&] { out = std::get<0>(at::_scaled_dot_product_attention_math(x.q, x.k, x.v)); });
    at::globalContext().setAllowTF32CuBLAS(false);
    TORCH_CHECK(failure.empty(), failure);
    return out;
  };
  return entry;
}

/// Ours that can run here, of a CPU the one that it would take, and LibTorch's.
std::vector<Entry> entries_of(at::Device device, const std::string& type, int64_t tokens) {
  std::vector<Entry> entries = entries_for(device, bench_type(type), kDim, {});
  if (device.is_cpu()) {
    const auto theirs = std::ranges::find(entries, false, &Entry::ours);
    entries.erase(entries.begin(), theirs - 1);  // the last of ours is the widest
  } else if (type == "fp32") {
    entries.push_back(math_in_tf32());
  }
  const double logit_bytes = 4.0 * kHeads * static_cast<double>(tokens) * static_cast<double>(tokens);
  std::erase_if(entries, [&](const Entry& entry) {
    return !entry.failure.empty() || (entry.name.starts_with("math") && logit_bytes > kMostLogitBytes);
  });
  return entries;
}

/// The fastest of LibTorch's that keeps the limit of `ours`; null if none does.
const Entry* fastest_peer(const std::vector<Entry>& entries, const Entry& ours, at::ScalarType type) {
  const double limit = limits_of(ours.name, type).output;
  const Entry* best = nullptr;
  for (const Entry& entry : entries) {
    if (entry.ours || !entry.failure.empty() || !(entry.error <= limit)) continue;
    if (!best || median(entry.seconds) < median(best->seconds)) best = &entry;
  }
  return best;
}

void show_rows(const std::vector<Entry>& entries, const std::string& type, int64_t tokens, double operations,
               const ShowRow& show) {
  for (const Entry& entry : entries) {
    if (!entry.ours) continue;
    ordered_json row = {
        {"tokens", tokens}, {"heads", kHeads}, {"head_dim", kDim}, {"type", type}, {"kernel", entry.name}};
    if (!entry.failure.empty()) {
      row["failure"] = entry.failure;
      show(row);
      continue;
    }
    const double seconds = median(entry.seconds);
    row["milliseconds"] = 1e3 * seconds;
    row["teraflops_per_second"] = 1e-12 * operations / seconds;
    row["relative_error"] = entry.error;
    row["rounds"] = entry.seconds.size();
    if (const Entry* peer = fastest_peer(entries, entry, bench_type(type))) {
      row["libtorch_kernel"] = peer->name;
      row["libtorch_milliseconds"] = 1e3 * median(peer->seconds);
      row["libtorch_relative_error"] = peer->error;
      row["speedup"] = median(peer->seconds) / seconds;
    }
    show(row);
  }
}

void measure(at::Device device, const std::string& type, int64_t tokens, double operations, Pace& pace,
             const ShowRow& show) {
  constexpr int64_t kSampled = 64;
  std::vector<Entry> entries = entries_of(device, type, tokens);
  if (!std::ranges::count(entries, true, &Entry::ours)) return;
  for (Entry& entry : entries) {
    entry.run = [&pace, run = entry.run](const AttentionInputs& x) {
      pace.check_stop();
      return run(x);
    };
  }
  const std::string failure = attempt([&] {
    const AttentionInputs x = normal_inputs({tokens}, kHeads, kDim, bench_type(type), device);
    const SampledRows sample = sample_exactly(x, kSampled);
    for (Entry& entry : entries) try_out(entry, x, sample);
    time_all(entries, x, {device, 7, pace.left() / 2});
  });
  std::vector<std::vector<double>> seconds;
  for (Entry& entry : entries) {
    if (!failure.empty()) entry.failure = failure;
    seconds.push_back(entry.seconds);
  }
  pace.took(operations, seconds);
  show_rows(entries, type, tokens, operations, show);
}

}  // namespace

void attention_kinds(at::Device device, bool has_bf16, Pace pace, const ShowRow& show) {
  const bool gpu = device.is_cuda();
  const std::vector<std::string> types =
      has_bf16 ? std::vector<std::string>{"fp32", "bf16"} : std::vector<std::string>{"fp32"};
  const std::vector<int64_t> lengths =
      gpu ? std::vector<int64_t>{1041, 4164, 16656, 104100} : std::vector<int64_t>{256, 1041, 4164};
  for (std::size_t i = 0; i < types.size(); ++i) {
    Pace of_type = pace.part(1 / static_cast<double>(types.size() - i));
    for (const int64_t tokens : lengths) {
      const double operations =
          4.0 * kHeads * kDim * static_cast<double>(tokens) * static_cast<double>(tokens);
      if (!of_type.fits(operations)) {
        leave_out(show, {{"tokens", tokens}, {"type", types[i]}}, of_type.why_not());
        continue;
      }
      measure(device, types[i], tokens, operations, of_type, show);
    }
  }
}

}  // namespace vggt
