#include "attention/bench/error_growth.h"

#include <algorithm>
#include <cmath>

#include "attention/attention.h"

namespace vggt {
namespace {

constexpr int64_t kBlock = 128;  // keys of a block: ELSA's

double error_between(const at::Tensor& out, const at::Tensor& exact) {
  return ((out.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

/// The state over blocks first .. end - 1 of the keys.
AttentionResult merged_blocks(const OurKernel& kernel, const AttentionInputs& x, int64_t first, int64_t end) {
  if (end - first > 1) {
    const int64_t middle = (first + end) / 2;
    return merge_states(merged_blocks(kernel, x, first, middle), merged_blocks(kernel, x, middle, end));
  }
  const int64_t from = first * kBlock, count = std::min(kBlock, x.k.size(2) - from);
  return kernel.attend({x.q, x.k.narrow(2, from, count), x.v.narrow(2, from, count), {}, {}, x.longest},
                       AttentionWant::state);
}

}  // namespace

double ErrorGrowth::slope() const {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double a = std::log(static_cast<double>(lengths[i])), b = std::log(errors[i]);
    x += a / n;
    y += b / n;
    xx += a * a / n;
    xy += a * b / n;
  }
  return (xy - x * y) / (xx - x * x);
}

ErrorGrowth error_growth(const OurKernel& kernel, const std::vector<int64_t>& lengths, int64_t heads,
                         int64_t dim, at::ScalarType type, at::Device device) {
  constexpr int64_t kRows = 64;
  ErrorGrowth growth{lengths, {}};
  for (int64_t n : lengths) {
    const AttentionInputs x = normal_inputs({n}, heads, dim, type, device);
    growth.errors.push_back(sample_exactly(x, kRows).error_of(kernel.attend(x, AttentionWant::output).out));
  }
  return growth;
}

BlockwiseError blockwise_error(const OurKernel& kernel, const AttentionInputs& x, const at::Tensor& rows) {
  AttentionInputs few = x;
  few.q = x.q.index_select(2, rows);  // [1,A,R,D]
  few.longest = few.q.size(2);
  const at::Tensor exact = attention(few.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble)).out;
  const int64_t blocks = (x.k.size(2) + kBlock - 1) / kBlock;
  const AttentionResult merged = finalise_state(merged_blocks(kernel, few, 0, blocks), x.q.scalar_type());
  return {error_between(merged.out, exact),
          error_between(kernel.attend(few, AttentionWant::output).out, exact)};
}

}  // namespace vggt
