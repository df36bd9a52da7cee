#include "model/bench/linear_rows.h"

#include <c10/core/InferenceMode.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "attention/bench/attempt.h"
#include "attention/bench/timing.h"
#include "model/layers/linear.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kWidth = 1024;  // C of VGGT-1B

/// A layer, or two with GELU between them.
struct Case {
  const char* name;
  int64_t out;
  bool second;  // [out] -> [C] after GELU

  double operations(int64_t rows) const {
    return 2.0 * static_cast<double>(rows * kWidth * out) * (second ? 2 : 1);
  }
};
constexpr Case kCases[] = {{"proj", kWidth, false},
                           {"qkv", 3 * kWidth, false},
                           {"fc1", 4 * kWidth, false},
                           {"mlp", 4 * kWidth, true}};

struct Weights {
  at::Tensor weight, bias;
};

Weights random_layer(int64_t in, int64_t out, const at::TensorOptions& options) {
  const auto values = at::TensorOptions().device(options.device());
  return {(at::randn({out, in}, values) / std::sqrt(static_cast<double>(in))).to(options.dtype()),
          at::randn({out}, values).to(options.dtype())};
}

at::Tensor ours(const at::Tensor& x, const Linear& first, const std::optional<Linear>& second) {
  at::Tensor y = first(x);
  return second ? second->of_gelu_(y) : y;
}

at::Tensor theirs(const at::Tensor& x, const Weights& first, const std::optional<Weights>& second) {
  const at::Tensor y = at::linear(x, first.weight, first.bias);
  return second ? at::linear(at::gelu(y), second->weight, second->bias) : y;
}

ordered_json measure(const Case& c, const at::TensorOptions& options, int64_t rows, Pace& pace) {
  ordered_json row = {{"layer", c.name}, {"rows", rows}};
  const std::string failure = attempt([&] {
    at::manual_seed(0);
    const at::Tensor x = at::randn({rows, kWidth}, options.dtype(at::kFloat)).to(options.dtype());
    const Weights first = random_layer(kWidth, c.out, options);
    std::optional<Weights> second;
    if (c.second) second = random_layer(c.out, kWidth, options);
    const ComputeKind kind{x.scalar_type(), at::kFloat};
    const Linear our_first(first.weight, first.bias, kind);
    std::optional<Linear> our_second;
    if (second) our_second.emplace(second->weight, second->bias, kind);
    const auto our_call = pace.checked([&] { ours(x, our_first, our_second); }),
               their_call = pace.checked([&] { theirs(x, first, second); });
    our_call();  // the first calls of a size choose and load kernels
    their_call();
    const auto seconds = Turns{x.device(), 7, pace.left() / 4}.time(
        {our_call, their_call}, [&](std::size_t, const std::string& why) { row["failure"] = why; });
    pace.took(c.operations(rows), seconds);
    if (row.contains("failure")) return;
    const double our_seconds = median(seconds[0]), their_seconds = median(seconds[1]);
    row["milliseconds"] = 1e3 * our_seconds;
    row["teraflops_per_second"] = 1e-12 * c.operations(rows) / our_seconds;
    row["rounds"] = seconds[0].size();
    row["libtorch_milliseconds"] = 1e3 * their_seconds;
    row["speedup"] = their_seconds / our_seconds;
  });
  if (!failure.empty()) row["failure"] = failure;
  return row;
}

}  // namespace

void linear_rows(at::Device device, bool has_bf16, Pace pace, const ShowRow& show) {
  const c10::InferenceMode guard;
  const std::vector<int64_t> sizes =
      device.is_cuda() ? std::vector<int64_t>{4164, 52050} : std::vector<int64_t>{256, 1041, 4164};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const bool half = type == at::kBFloat16;
    if (half && !has_bf16) continue;
    Pace of_type = pace.part(has_bf16 && !half ? 0.5 : 1);
    for (const int64_t rows : sizes) {
      double operations = 0;
      for (const Case& c : kCases) operations += c.operations(rows);
      if (!of_type.fits(operations)) {
        leave_out(show, {{"rows", rows}, {"type", half ? "bf16" : "fp32"}}, of_type.why_not());
        continue;
      }
      for (const Case& c : kCases) {
        ordered_json row = measure(c, at::TensorOptions().device(device).dtype(type), rows, of_type);
        row["type"] = half ? "bf16" : "fp32";
        show(row);
      }
    }
  }
}

}  // namespace vggt
