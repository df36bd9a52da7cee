#include "model/trunk/token_match.h"

#include <algorithm>
#include <limits>

namespace vggt {
namespace {

/// a·bᵀ, [a,C] and [b,C] -> [a,b]; of half types with fp32 sums, which decide ties that half scores would
/// make.
at::Tensor scores(const at::Tensor& a, const at::Tensor& b) {
  return a.element_size() == 2 ? at::mm(a, b.t(), at::kFloat) : at::mm(a, b.t());
}

}  // namespace

TokenMatches best_destinations(const at::Tensor& metric, const at::Tensor& sources,
                               const at::Tensor& destinations, int64_t most_scores) {
  const int64_t s = sources.size(0), d = destinations.size(0);
  TORCH_CHECK(d > 0 && most_scores > 0, "best_destinations: expected destinations and room for scores");
  const int64_t wide = std::min(d, most_scores), high = std::max<int64_t>(1, most_scores / wide);
  const at::Tensor targets = metric.index_select(0, destinations);  // [d,C]
  const at::ScalarType type = metric.element_size() == 2 ? at::kFloat : metric.scalar_type();
  TokenMatches matches{at::full({s}, -std::numeric_limits<double>::infinity(), metric.options().dtype(type)),
                       at::zeros({s}, destinations.options())};
  for (int64_t top = 0; top < s; top += high) {
    const int64_t rows = std::min(high, s - top);
    const at::Tensor from = metric.index_select(0, sources.narrow(0, top, rows));  // [rows,C]
    at::Tensor score = matches.score.narrow(0, top, rows), best = matches.best.narrow(0, top, rows);
    for (int64_t left = 0; left < d; left += wide) {
      const int64_t columns = std::min(wide, d - left);
      const auto [most, place] = scores(from, targets.narrow(0, left, columns)).max(1);  // [rows]
      const at::Tensor better = most > score;  // [rows]; an equal one further on is not
      best.copy_(at::where(better, place + left, best));
      score.copy_(at::where(better, most, score));
    }
  }
  return matches;
}

}  // namespace vggt
