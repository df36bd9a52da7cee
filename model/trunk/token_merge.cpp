#include "model/trunk/token_merge.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdint>

#include "model/layers/segment_mean.h"

namespace vggt {
namespace {

/// Which tokens are destinations: [N] of 0 or 1.
std::vector<char> mark_destinations(int64_t frames, int64_t rows, int64_t columns, int64_t special,
                                    uint64_t seed) {
  const int64_t P = special + rows * columns, cell_rows = rows / 2, cell_columns = columns / 2;
  std::vector<char> marks(frames * P, 0);
  std::fill_n(marks.begin(), P, 1);
  const at::Tensor drawn = at::randint(4, {frames - 1, cell_rows, cell_columns},
                                       at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
  const auto corner = drawn.accessor<int64_t, 3>();  // 0 to 3, row by row of a cell
  for (int64_t frame = 1; frame < frames; ++frame) {
    char* of_frame = marks.data() + frame * P;
    std::fill_n(of_frame, special, 1);
    for (int64_t j = 0; j < cell_rows; ++j) {
      for (int64_t i = 0; i < cell_columns; ++i) {
        const int64_t k = corner[frame - 1][j][i];
        // Rows of 2·cell_columns without gaps, also where a frame's rows have one patch more: the cells are
        // then sheared against the picture, as the reference has them.
        of_frame[special + (2 * j + k / 2) * 2 * cell_columns + 2 * i + k % 2] = 1;
      }
    }
  }
  return marks;
}

at::Tensor to_indices(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

/// Which of the sources merge, and where to.
struct Merging {
  at::Tensor unmerged;      // [u] tokens, ascending
  at::Tensor merged;        // [m] tokens, ascending
  at::Tensor destinations;  // [m] the place of each one's destination among the layout's
};

Merging choose(const MergeLayout& layout, const TokenMatches& matches) {
  const int64_t s = layout.sources.size(0), m = std::min(layout.most_merged, s);
  if (m == s) return {layout.sources.narrow(0, 0, 0), layout.sources, matches.best};
  const at::Tensor order = std::get<1>(matches.score.sort(/*stable=*/true, 0, /*descending=*/true));  // [s]
  const at::Tensor merged = std::get<0>(order.narrow(0, 0, m).sort()),
                   unmerged = std::get<0>(order.narrow(0, m, s - m).sort());
  return {layout.sources.index_select(0, unmerged), layout.sources.index_select(0, merged),
          matches.best.index_select(0, merged)};
}

}  // namespace

MergeLayout merge_layout(int64_t frames, int64_t rows, int64_t columns, int64_t special,
                         const MergeOptions& options, at::Device device) {
  const MergeCounts counts = merge_counts(frames, rows, columns, special, options);
  const std::vector<char> is_destination = mark_destinations(frames, rows, columns, special, options.seed);
  const int64_t of_frame = special + rows * columns;
  std::vector<int64_t> destinations, sources, protected_tokens, sources_before, destinations_before;
  const auto begin_frame = [&] {
    sources_before.push_back(static_cast<int64_t>(sources.size()));
    destinations_before.push_back(static_cast<int64_t>(destinations.size()));
  };
  for (int64_t token = 0; token < counts.tokens; ++token) {
    if (token % of_frame == 0) begin_frame();
    const bool is_protected =
        token % counts.protected_step == 0 && token / counts.protected_step < counts.protected_tokens;
    if (is_protected) protected_tokens.push_back(token);
    if (is_destination[token]) {
      destinations.push_back(token);
    } else if (!is_protected) {
      sources.push_back(token);
    }
  }
  begin_frame();
  return {counts.tokens,
          counts.most_merged,
          to_indices(destinations, device),
          to_indices(sources, device),
          to_indices(protected_tokens, device),
          std::move(sources_before),
          std::move(destinations_before)};
}

MergePlan plan_merge(const MergeLayout& layout, const at::Tensor& metric) {
  TORCH_CHECK(metric.dim() == 2 && metric.size(0) == layout.tokens, "plan_merge: expected a metric of ",
              layout.tokens, " tokens [N,C], got ", metric.sizes());
  return plan_merge(layout, best_destinations(metric.index_select(0, layout.sources),
                                              metric.index_select(0, layout.destinations)));
}

MergePlan plan_merge(const MergeLayout& layout, const TokenMatches& matches) {
  const int64_t N = layout.tokens, d = layout.destinations.size(0), p = layout.protected_tokens.size(0);
  TORCH_CHECK(matches.best.size(0) == layout.sources.size(0), "plan_merge: expected matches of ",
              layout.sources.size(0), " sources, got ", matches.best.sizes());
  const Merging merging = choose(layout, matches);
  const int64_t u = merging.unmerged.size(0);
  const auto places = [&](int64_t first, int64_t count) {
    return at::arange(first, first + count, layout.sources.options());
  };
  // Each token and its row; protected tokens once more at the end.
  const at::Tensor tokens =
      at::cat({merging.unmerged, layout.destinations, merging.merged, layout.protected_tokens});  // [N']
  const at::Tensor rows =
      at::cat({places(0, u), places(u, d), merging.destinations + u, places(u + d, p)});  // [N']
  // A radix sort passes over 32 bits in half the time.
  const at::ScalarType key = u + d + p < INT32_MAX ? at::kInt : at::kLong;
  const auto [sorted, order] = rows.to(key).sort(/*stable=*/true, 0, /*descending=*/false);  // [N']
  MergePlan plan;
  plan.members = tokens.index_select(0, order);
  plan.offsets = at::searchsorted(sorted, places(0, u + d + p + 1).to(key));
  plan.row_of = at::empty({N}, rows.options());
  const int64_t once = tokens.size(0) - p;
  plan.row_of.index_copy_(0, tokens.narrow(0, 0, once), rows.narrow(0, 0, once));
  plan.row_of.index_copy_(0, layout.protected_tokens, rows.narrow(0, once, p));  // the last word
  plan.unmerged = u;
  return plan;
}

void MergePlan::apply_into(at::Tensor& out, const at::Tensor& x) const {
  TORCH_CHECK(x.dim() >= 2 && x.size(0) == row_of.size(0) && x.is_contiguous(),
              "MergePlan: expected contiguous x of ", row_of.size(0), " tokens, got ", x.sizes());
  TORCH_CHECK(out.dim() == x.dim() && out.size(0) == rows() && out.sizes().slice(1) == x.sizes().slice(1),
              "MergePlan: expected room for ", rows(), " rows of ", x.sizes().slice(1), ", got ",
              out.sizes());
  at::Tensor means = out.view({rows(), -1});  // [M,K]
  segment_mean_into(means, x.view({x.size(0), -1}), members, offsets);
}

at::Tensor MergePlan::undo(const at::Tensor& merged) const {
  return merged.index_select(0, row_of);
}

}  // namespace vggt
