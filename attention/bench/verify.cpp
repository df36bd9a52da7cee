#include "attention/bench/verify.h"

#include <algorithm>

#include "attention/bench/contenders.h"
#include "attention/bench/drift.h"
#include "attention/bench/error_growth.h"
#include "attention/bench/limits.h"
#include "attention/bench/table.h"
#include "attention/bench/timing.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kRows = 1024;  // tokens of a head that are looked at
constexpr double kShares[] = {0.5, 0.95, 0.99};

struct Scenario {
  const char* name;
  Oracle oracle;
  Drift math, math_tf32;  // of LibTorch's math backend; math_tf32 for fp32 alone
};

/// The kernel that is verified now, and where its results go.
struct Verifier {
  const AttentionBenchOptions& options;
  at::Device device;
  const Print& print;
  VerifyResult result;

  int64_t heads() const { return options.heads.value_or(2); }

  /// Notes a result above its limit; NaN counts as above.
  void hold(const std::string& what, double value, double limit) {
    if (value <= limit) return;
    result.exceeded.push_back(formatted("%s: %.2e, limit %.2e", what.c_str(), value, limit));
    print("  exceeded: " + result.exceeded.back() + "\n");
  }
};

double p99(const Drift& drift, DriftMetric metric) {
  return percentile(drift[metric], 0.99);
}

/// Prints and returns the percentiles.
ordered_json show(const Verifier& verifier, const std::string& title, const Drift& drift) {
  ordered_json json;
  verifier.print(formatted("%-30s %9s %9s %9s\n", title.c_str(), "p50", "p95", "p99"));
  for (int metric = 0; metric < kDriftMetrics; ++metric) {
    ordered_json numbers = ordered_json::array();
    for (double share : kShares) numbers.push_back(percentile(drift[metric], share));
    verifier.print(formatted("  %-28s %9.1e %9.1e %9.1e\n", kDriftNames[metric], numbers[0].get<double>(),
                             numbers[1].get<double>(), numbers[2].get<double>()));
    json[kDriftNames[metric]] = numbers;
  }
  double differ = 0;
  for (double one : drift[argmax_differs]) differ += one / static_cast<double>(drift[argmax_differs].size());
  verifier.print(formatted("  %-28s %9.1e\n", "share of argmax that differs", differ));
  json["argmax_share"] = differ;
  return json;
}

std::vector<Scenario> scenarios_for(const Verifier& verifier, at::ScalarType type) {
  const AttentionBenchOptions& options = verifier.options;
  const std::vector<int64_t> n =
      options.lengths.empty() ? std::vector<int64_t>{1024, 8192, 4096} : options.lengths;
  auto normal = [&](int64_t length) {
    return Oracle(normal_inputs({length}, verifier.heads(), options.dim, type, verifier.device), kRows);
  };
  std::vector<Scenario> scenarios;
  scenarios.push_back({"regular", normal(n[0]), {}, {}});
  scenarios.push_back({"long", normal(n[1]), {}, {}});
  scenarios.push_back(
      {"stress",
       Oracle(stress_inputs(n[2], verifier.heads(), options.dim, type, verifier.device), kRows),
       {},
       {}});
  for (Scenario& scenario : scenarios) {
    scenario.math = drift_of_math(scenario.oracle);
    if (type == at::kFloat) scenario.math_tf32 = drift_of_math(scenario.oracle, true);
  }
  return scenarios;
}

/// In stress the logits are large, and every computation in the type rounds them. Twice the error of
/// LibTorch's math backend, on operands as the kernel's, is added to the limit.
void verify_drift(Verifier& verifier, const OurKernel& kernel, const ExactnessLimits& limits,
                  const Scenario& scenario, const std::string& type, ordered_json& json) {
  const std::string title = kernel.name + " " + type + ", " + scenario.name;
  const Drift drift = drift_of(kernel, scenario.oracle);
  json[scenario.name] = show(verifier, title, drift);
  const bool stress = std::string(scenario.name) == "stress";
  const Drift& math = kernel.name == "turbo" ? scenario.math_tf32 : scenario.math;
  auto hold = [&](DriftMetric metric, double limit) {
    if (stress) limit += 2 * p99(math, metric);
    verifier.hold(title + ", " + kDriftNames[metric] + " p99", p99(drift, metric), limit);
  };
  hold(relative_dp, limits.probability);
  hold(relative_dy, 2 * limits.output);
}

void verify_blocks(Verifier& verifier, const OurKernel& kernel, const ExactnessLimits& limits,
                   const Scenario& scenario, const std::string& type, ordered_json& json) {
  const BlockwiseError error = blockwise_error(kernel, scenario.oracle.x, scenario.oracle.rows);
  verifier.print(formatted("%s %s, %s: error by blocks of 128 keys %.1e, of one call %.1e\n",
                           kernel.name.c_str(), type.c_str(), scenario.name, error.blockwise, error.global));
  json[scenario.name]["blockwise_error"] = error.blockwise;
  json[scenario.name]["global_error"] = error.global;
  verifier.hold(kernel.name + " " + type + ", " + scenario.name + ", blocks of keys", error.blockwise,
                2 * error.global + limits.output);
}

void verify_growth(Verifier& verifier, const OurKernel& kernel, const ExactnessLimits& limits,
                   const std::string& type, ordered_json& json) {
  std::vector<int64_t> lengths{1024, 4096, 16384, 104100};
  if (!verifier.options.lengths.empty()) {
    lengths = verifier.options.lengths;
  } else if (verifier.device.is_cpu()) {
    lengths = {1024, 2048, 4096, 8192};
  }
  std::ranges::sort(lengths);
  const ErrorGrowth growth = error_growth(kernel, lengths, verifier.heads(), verifier.options.dim,
                                          bench_type(type), verifier.device);
  std::string text = kernel.name + " " + type + ", error against N:";
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    text += formatted(" %lld %.2e,", static_cast<long long>(lengths[i]), growth.errors[i]);
    verifier.hold(
        formatted("%s %s, N %lld", kernel.name.c_str(), type.c_str(), static_cast<long long>(lengths[i])),
        growth.errors[i], limits.output);
  }
  verifier.print(text + formatted(" slope %.3f\n", growth.slope()));
  json["error_by_length"] = {{"lengths", lengths}, {"errors", growth.errors}, {"slope", growth.slope()}};
  // Over a few tiles the error still rises to its level, and between close lengths it only scatters.
  if (lengths.front() >= 1000 && lengths.front() * 8 <= lengths.back())
    verifier.hold(kernel.name + " " + type + ", slope of the error", growth.slope(), limits.slope);
}

void show_structure(const Verifier& verifier, const OurKernel& kernel, const Scenario& scenario,
                    const std::string& type, ordered_json& json) {
  const KernelStructure s = kernel.structure(scenario.oracle.x);
  verifier.print(
      formatted("%s %s, %s: tiles of %lld keys, %lld key partitions, %lld summaries, merge depth %lld\n",
                kernel.name.c_str(), type.c_str(), scenario.name, static_cast<long long>(s.key_tile),
                static_cast<long long>(s.partitions), static_cast<long long>(s.summaries),
                static_cast<long long>(s.merge_depth)));
  json[scenario.name]["structure"] = {{"key_tile", s.key_tile},
                                      {"partitions", s.partitions},
                                      {"summaries", s.summaries},
                                      {"merge_depth", s.merge_depth}};
}

void verify_kernel(Verifier& verifier, const OurKernel& kernel, const std::vector<Scenario>& scenarios,
                   const std::string& type) {
  const ExactnessLimits limits = limits_of(kernel.name, bench_type(type));
  ordered_json json = {
      {"kernel", kernel.name},
      {"type", type},
      {"limits", {{"output", limits.output}, {"probability", limits.probability}, {"slope", limits.slope}}}};
  for (const Scenario& scenario : scenarios) {
    verify_drift(verifier, kernel, limits, scenario, type, json);
    verify_blocks(verifier, kernel, limits, scenario, type, json);
    show_structure(verifier, kernel, scenario, type, json);
  }
  verify_growth(verifier, kernel, limits, type, json);
  verifier.result.json["kernels"].push_back(json);
}

}  // namespace

VerifyResult verify_attention(const AttentionBenchOptions& options, at::Device device, const Print& print) {
  Verifier verifier{options, device, print, {}};
  print(formatted(
      "drift from float64, over heads and %lld tokens of each at most; weights: exp(own logit - own lse)\n",
      static_cast<long long>(kRows)));
  verifier.result.json["kernels"] = ordered_json::array();
  for (const std::string& type : types_of(options, device)) {
    const std::vector<OurKernel> kernels =
        our_kernels(device, bench_type(type), options.dim, options.variants);
    const std::vector<Scenario> scenarios = scenarios_for(verifier, bench_type(type));
    for (const Scenario& scenario : scenarios) {
      const std::string title = "LibTorch's math " + type + ", " + scenario.name;
      verifier.result.json["math"][type][scenario.name] = show(verifier, title, scenario.math);
    }
    for (const OurKernel& kernel : kernels) {
      if (kernel.refusal.empty())
        verify_kernel(verifier, kernel, scenarios, type);
      else
        print(kernel.name + " " + type + ": refused: " + kernel.refusal + "\n");
    }
  }
  verifier.result.json["exceeded"] = verifier.result.exceeded;
  return std::move(verifier.result);
}

}  // namespace vggt
