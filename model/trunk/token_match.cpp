#include "model/trunk/token_match.h"

#include <algorithm>
#include <limits>

#include "model/layers/cpu_product.h"
#include "model/layers/fused_match.h"
#include "model/layers/screened_match.h"

namespace vggt {
namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

/// a·bᵀ, [a,C] and [b,C] -> [a,b], of half types in fp32: half scores would make ties. NaN becomes -inf.
/// few_rows: there is room for less than kFewestRows of them.
at::Tensor scores(const at::Tensor& a, const at::Tensor& b, bool few_rows) {
  at::Tensor s;
  if (a.element_size() == 2 && a.is_cuda()) {
    s = at::mm(a, b.t(), at::kFloat);
  } else {
    const at::ScalarType type = a.element_size() == 2 ? at::kFloat : a.scalar_type();
    const at::Tensor from = a.to(type), to = b.to(type);
    if (onednn_pays(to, few_rows)) {
      s = linear_onednn(from, to, at::zeros({to.size(0)}, to.options()));
    } else {
      s = at::mm(from, to.t());
    }
  }
  return s.nan_to_num_(kLeast, -kLeast, kLeast);
}

/// Tile by tile of at most so many scores.
void match_by_products(const at::Tensor& sources, const at::Tensor& destinations, int64_t most_scores,
                       TokenMatches& matches) {
  const int64_t s = sources.size(0), d = destinations.size(0);
  const int64_t wide = std::min(d, most_scores), high = std::max<int64_t>(1, most_scores / wide);
  for (int64_t top = 0; top < s; top += high) {
    const int64_t rows = std::min(high, s - top);
    const at::Tensor from = sources.narrow(0, top, rows);  // [rows,C]
    at::Tensor score = matches.score.narrow(0, top, rows), best = matches.best.narrow(0, top, rows);
    for (int64_t left = 0; left < d; left += wide) {
      const int64_t columns = std::min(wide, d - left);
      const auto [most, place] =
          scores(from, destinations.narrow(0, left, columns), high < kFewestRows).max(1);  // [rows]
      const at::Tensor better = most > score;  // [rows]; an equal one further on is not
      best.copy_(at::where(better, place + left, best));
      score.copy_(at::where(better, most, score));
    }
  }
}

/// Sources that the screen leaves come by products.
void match_by_screen(const at::Tensor& sources, const at::Tensor& destinations, int64_t most_scores,
                     TokenMatches& matches) {
  const at::Tensor left = match_screened(sources, destinations, matches.score, matches.best);  // [k]
  if (left.size(0) == 0) return;
  TokenMatches rest{matches.score.index_select(0, left), matches.best.index_select(0, left)};
  match_by_products(sources.index_select(0, left), destinations,
                    std::min(most_scores, kLeftSources * destinations.size(0)), rest);
  matches.score.index_copy_(0, left, rest.score);
  matches.best.index_copy_(0, left, rest.best);
}

}  // namespace

TokenMatches best_destinations(const at::Tensor& sources, const at::Tensor& destinations,
                               int64_t most_scores) {
  TORCH_CHECK(sources.dim() == 2 && destinations.dim() == 2 && sources.size(1) == destinations.size(1) &&
                  sources.scalar_type() == destinations.scalar_type() &&
                  sources.device() == destinations.device() && sources.is_contiguous() &&
                  destinations.is_contiguous(),
              "best_destinations: expected contiguous [s,C] and [d,C] of one type and device, got ",
              sources.sizes(), " and ", destinations.sizes());
  TORCH_CHECK(destinations.size(0) > 0 && most_scores > 0,
              "best_destinations: expected destinations and room for scores");
  const int64_t s = sources.size(0);
  const at::ScalarType type = sources.element_size() == 2 ? at::kFloat : sources.scalar_type();
  TokenMatches matches{at::full({s}, kLeast, sources.options().dtype(type)),
                       at::zeros({s}, sources.options().dtype(at::kLong))};
  if (can_match_fused(sources, destinations)) {
    match_fused(sources, destinations, matches.score, matches.best);
  } else if (can_screen_matches() && sources.is_cpu() && type == at::kFloat && sources.size(1) > 0) {
    match_by_screen(sources.to(type), destinations.to(type), most_scores, matches);
  } else {
    match_by_products(sources, destinations, most_scores, matches);
  }
  return matches;
}

}  // namespace vggt
