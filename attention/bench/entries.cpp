#include "attention/bench/entries.h"

#include <algorithm>

#include "attention/bench/attempt.h"
#include "attention/bench/contenders.h"

namespace vggt {

std::vector<Entry> entries_for(at::Device device, at::ScalarType type, int64_t dim,
                               const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  for (const OurKernel& kernel : our_kernels(device, type, dim, names)) {
    Entry entry;
    entry.name = kernel.name;
    entry.ours = true;
    entry.failure = kernel.refusal.empty() ? "" : "refused: " + kernel.refusal;
    entry.run = [kernel](const AttentionInputs& x) { return kernel.attend(x, AttentionWant::output).out; };
    entries.push_back(entry);
  }
  for (const Peer& peer : peers(device, type)) {
    Entry entry;
    entry.name = peer.name;
    entry.failure = peer.refusal.empty() ? "" : "refused: " + peer.refusal;
    entry.run = peer.run;
    entries.push_back(entry);
  }
  return entries;
}

void try_out(Entry& entry, const AttentionInputs& x, const SampledRows& sample) {
  entry.failure = attempt([&] {
    at::Tensor out;
    const std::optional<double> bytes = peak_bytes_of(x.q.device(), [&] { out = entry.run(x); });
    if (bytes)
      entry.extra_bytes = std::max(0.0, *bytes - static_cast<double>(out.numel() * out.element_size()));
    entry.error = sample.error_of(out);
  });
}

void time_all(std::vector<Entry>& entries, const AttentionInputs& x, const Turns& turns) {
  std::vector<Entry*> able;
  std::vector<std::function<void()>> calls;
  for (Entry& entry : entries) {
    if (!entry.failure.empty()) continue;
    able.push_back(&entry);
    calls.push_back([&entry, &x] { entry.run(x); });
  }
  const auto seconds =
      turns.time(calls, [&](std::size_t i, const std::string& failure) { able[i]->failure = failure; });
  for (std::size_t i = 0; i < able.size(); ++i) able[i]->seconds = seconds[i];
}

}  // namespace vggt
