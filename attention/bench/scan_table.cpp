#include "attention/bench/scan_table.h"

#include <cmath>

#include "attention/bench/attempt.h"
#include "attention/bench/scan/scan.h"
#include "attention/bench/timing.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

AttentionResult random_states(int64_t heads, int64_t n, int64_t dim, at::Device device) {
  at::manual_seed(0);
  const auto options = at::TensorOptions().device(device);
  AttentionResult states;
  states.m = at::randn({1, heads, n}, options);
  states.s = at::ones({1, heads, n}, options);
  states.w = at::randn({1, heads, n, dim}, options);
  return states;
}

std::vector<ScanForm> forms_on(at::Device device) {
  if (device.is_cpu()) return {ScanForm::chunked, ScanForm::two_level, ScanForm::recurrence};
  return {ScanForm::chunked, ScanForm::two_level, ScanForm::cub_block, ScanForm::cub_device};
}

ordered_json compare(int64_t heads, int64_t n, const AttentionBenchOptions& options, at::Device device) {
  const std::vector<ScanForm> forms = forms_on(device);
  AttentionResult states;
  const std::string failure = attempt([&] { states = random_states(heads, n, options.dim, device); });
  std::vector<std::function<void()>> calls;
  for (ScanForm form : forms) calls.push_back([&states, form] { scan_states(states, form); });
  std::vector<std::string> failures(forms.size(), failure);
  std::vector<std::vector<double>> seconds(forms.size());
  if (failure.empty())
    seconds = Turns{device, options.repeat, options.seconds}.time(
        calls, [&](std::size_t i, const std::string& what) { failures[i] = what; });
  // Each state read once and written once, however many passes a form makes.
  const double bytes = 2 * 4 * static_cast<double>(heads * n) * static_cast<double>(options.dim + 2);
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < forms.size(); ++i) {
    ordered_json row = {{"form", name_of(forms[i])}, {"heads", heads}, {"length", n}, {"dim", options.dim}};
    if (failures[i].empty()) {
      row["milliseconds"] = 1e3 * median(seconds[i]);
      row["spread"] = spread(seconds[i]);
      row["gigabytes_per_second"] = 1e-9 * bytes / median(seconds[i]);
      row["ratio"] = failures[0].empty() ? median(seconds[0]) / median(seconds[i]) : NAN;
    } else {
      row["failure"] = failures[i];
    }
    rows.push_back(row);
  }
  return rows;
}

std::string text_of(const ordered_json& row) {
  const std::string text = formatted("%8s %4s %-11s", row["length"].dump().c_str(),
                                     row["heads"].dump().c_str(), row["form"].get<std::string>().c_str());
  if (row.contains("failure")) return text + " " + row["failure"].get<std::string>().substr(0, 200) + "\n";
  return text + formatted(" %10.4f %5.1f%% %8.1f %7.2f\n", row["milliseconds"].get<double>(),
                          100 * row["spread"].get<double>(), row["gigabytes_per_second"].get<double>(),
                          row["ratio"].get<double>());
}

}  // namespace

ordered_json scan_table(const AttentionBenchOptions& options, at::Device device, const Print& print) {
  ordered_json rows = ordered_json::array();
  if (!wants_group(options, "scan")) return rows;
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty()) {
    const int64_t most = device.is_cuda() ? 416400 : 8192;
    for (int64_t n = 32; n < most; n *= 4) lengths.push_back(n);
    lengths.push_back(most);
  }
  print("\nall prefixes of N states, fp32. ratio: time of the two passes over chunks over this one's.\n");
  print(formatted("%8s %4s %-11s %10s %6s %8s %7s\n", "N", "A", "form", "ms", "spread", "GB/s", "ratio"));
  for (int64_t n : lengths) {
    for (ordered_json& row : compare(options.heads.value_or(16), n, options, device)) {
      print(text_of(row));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace vggt
