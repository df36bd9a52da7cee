#include "attention/bench/inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/attention.h"

namespace vggt {

at::ScalarType bench_type(const std::string& name) {
  return name == "fp32" ? at::kFloat : name == "bf16" ? at::kBFloat16 : at::kHalf;
}

AttentionInputs normal_inputs(const std::vector<int64_t>& lengths, int64_t heads, int64_t dim,
                              at::ScalarType type, at::Device device) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  at::manual_seed(0);
  const at::Tensor all = at::randn({1, tokens, 3, heads, dim}, at::TensorOptions().device(device))
                             .to(type)
                             .permute({2, 0, 3, 1, 4});
  AttentionInputs x{all[0], all[1], all[2], {}, {}, *std::ranges::max_element(lengths)};
  if (lengths.size() > 1) {
    const at::Tensor counts = at::tensor(lengths, at::kLong);
    x.offsets = at::constant_pad_nd(counts.cumsum(0), {1, 0}).contiguous();
    x.offsets_on_device = x.offsets.to(at::kInt).to(device);
  }
  return x;
}

AttentionInputs stress_inputs(int64_t n, int64_t heads, int64_t dim, at::ScalarType type, at::Device device) {
  AttentionInputs x = normal_inputs({n}, heads, dim, at::kFloat, device);
  const auto options = x.q.options();
  // Along the direction (1, 1, ...) the logits gain dim·(8 / root)·8·ramp / root = 64·ramp.
  const double root = std::sqrt(static_cast<double>(dim));
  const at::Tensor ramp = at::linspace(-1, 1, n, options).view({1, 1, n, 1});
  const at::Tensor sign = (1 - 2 * at::arange(n, options).remainder(2)).view({1, 1, n, 1});
  x.q = (2 * x.q + 8 / root * sign).to(type);
  x.k = (2 * x.k + 8 * ramp).to(type);
  x.v = x.v.to(type);
  return x;
}

at::Tensor spread_rows(int64_t n, int64_t most, at::Device device) {
  const int64_t count = std::min(n, most);
  return at::linspace(0, static_cast<double>(n - 1), count, at::kDouble).round().to(at::kLong).to(device);
}

AttentionInputs sequence_of(const AttentionInputs& x, int64_t i) {
  if (!x.offsets.defined()) return x;
  const int64_t first = x.offsets[i].item<int64_t>(), count = x.offsets[i + 1].item<int64_t>() - first;
  auto part = [&](const at::Tensor& t) { return t.narrow(2, first, count); };
  return {part(x.q), part(x.k), part(x.v), {}, {}, count};
}

double SampledRows::error_of(const at::Tensor& out) const {
  const at::Tensor some = out.index_select(2, rows).to(at::kDouble);  // [1,A,R,D]
  return ((some - exact).norm() / exact.norm()).item<double>();
}

SampledRows sample_exactly(const AttentionInputs& x, int64_t rows_per_sequence) {
  std::vector<at::Tensor> rows, exact;
  int64_t first = 0;
  for (int64_t i = 0; i < x.sequences(); ++i) {
    const AttentionInputs one = sequence_of(x, i);
    const int64_t n = one.q.size(2);
    const at::Tensor own = spread_rows(n, rows_per_sequence, x.q.device());
    rows.push_back(own + first);
    exact.push_back(
        attention(one.q.index_select(2, own).to(at::kDouble), one.k.to(at::kDouble), one.v.to(at::kDouble))
            .out);
    first += n;
  }
  return {at::cat(rows), at::cat(exact, 2)};
}

}  // namespace vggt
