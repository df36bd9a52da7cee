// Token merging: against FastVGGT's tensors (fixtures/golden), and against what holds for every size and
// option.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/trunk/token_merge.h"
#include "tests/support/golden.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using testing::Tensors;

const fs::path kMini = fs::path(VGGT_FIXTURES) / "golden/mini";
constexpr int64_t kSpecial = 5;

at::Tensor unit_rows(const at::Tensor& x) {
  return x / x.norm(2, {1}, true);
}

at::Tensor apply(const MergePlan& plan, const at::Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = plan.rows();
  at::Tensor merged = at::empty(shape, x.options());
  plan.apply_into(merged, x);
  return merged;
}

MergeLayout layout_of(int64_t frames, int64_t rows, int64_t columns, const MergeOptions& options = {}) {
  return merge_layout(frames, rows, columns, kSpecial, options, at::kCPU);
}

struct GoldenMerge {
  std::string name;
  int64_t frames, rows, columns;
};

class MergeParity : public ::testing::TestWithParam<GoldenMerge> {};

TEST_P(MergeParity, EqualsTheReference) {
  const auto& [name, frames, rows, columns] = GetParam();
  const Tensors golden = testing::load_tensors(kMini / (name + ".safetensors"));
  const MergeLayout layout = layout_of(frames, rows, columns);
  const MergePlan plan = plan_merge(layout, unit_rows(golden.at("metric")));
  for (const char* part : {"q", "k", "v"}) {
    const at::Tensor merged = apply(plan, golden.at(part)),
                     expected = golden.at(std::string("merged_") + part);
    ASSERT_EQ(merged.sizes(), expected.sizes());
    EXPECT_LE((merged - expected).abs().max().item<double>(), 1e-6) << part;
  }
  const at::Tensor undone = plan.undo(apply(plan, golden.at("q")));  // [N,64]
  EXPECT_LE((undone - golden.at("unmerged_q")).abs().max().item<double>(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Golden, MergeParity,
                         ::testing::Values(GoldenMerge{"merge_5x3x4", 4, 3, 5},
                                           GoldenMerge{"merge_6x4x5", 5, 4, 6}));

/// The plan written out token by token, from the description of it.
struct PlainPlan {
  std::vector<std::vector<int64_t>> rows;  // tokens of each merged row
  std::vector<int64_t> row_of;             // of each token
};

PlainPlan plain_plan(const MergeLayout& layout, const at::Tensor& metric) {
  const auto list = [](const at::Tensor& x) {
    return std::vector<int64_t>(x.const_data_ptr<int64_t>(), x.const_data_ptr<int64_t>() + x.numel());
  };
  const std::vector<int64_t> destinations = list(layout.destinations), sources = list(layout.sources);
  struct Edge {
    int64_t source, place;
    double score;
  };
  std::vector<Edge> edges;
  for (const int64_t source : sources) {
    Edge edge{source, 0, -2};
    for (size_t place = 0; place < destinations.size(); ++place) {
      const double score = metric[source].dot(metric[destinations[place]]).item<double>();
      if (score > edge.score) edge = {source, static_cast<int64_t>(place), score};
    }
    edges.push_back(edge);
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.score > b.score; });
  const size_t most = std::min<size_t>(layout.most_merged, edges.size());
  std::sort(edges.begin(), edges.begin() + most, [](auto& a, auto& b) { return a.source < b.source; });
  std::sort(edges.begin() + most, edges.end(), [](auto& a, auto& b) { return a.source < b.source; });
  PlainPlan plan;
  plan.row_of.assign(layout.tokens, -1);
  const auto add_row = [&](int64_t token) {
    plan.row_of[token] = static_cast<int64_t>(plan.rows.size());
    plan.rows.push_back({token});
  };
  for (size_t i = most; i < edges.size(); ++i) add_row(edges[i].source);
  const size_t unmerged = plan.rows.size();
  for (const int64_t token : destinations) add_row(token);
  for (size_t i = 0; i < most; ++i) {
    plan.rows[unmerged + edges[i].place].push_back(edges[i].source);
    plan.row_of[edges[i].source] = static_cast<int64_t>(unmerged) + edges[i].place;
  }
  for (const int64_t token : list(layout.protected_tokens)) add_row(token);
  return plan;
}

using Shape = std::array<int64_t, 3>;  // frames, rows, columns

class MergeSizes : public ::testing::TestWithParam<Shape> {
 protected:
  /// Every combination of shares, with scores far enough apart that rounding decides nothing.
  template <class Check>
  void for_all_options(const Check& check) const {
    const auto& [frames, rows, columns] = GetParam();
    for (const double ratio : {0.0, 0.05, 0.5, 0.9, 1.0}) {
      for (const double protect : {0.0, 0.1, 0.37, 1.0}) {
        const MergeOptions options{.ratio = ratio, .protect = protect, .seed = 5};
        SCOPED_TRACE("ratio " + std::to_string(ratio) + " protect " + std::to_string(protect));
        check(options, layout_of(frames, rows, columns, options));
      }
    }
  }
  at::Tensor random_metric(int64_t tokens) const {
    at::manual_seed(3);
    return unit_rows(at::randn({tokens, 24}, at::kDouble));
  }
};

TEST_P(MergeSizes, GiveEveryTokenItsPart) {
  const auto& [frames, rows, columns] = GetParam();
  const int64_t P = kSpecial + rows * columns;
  for_all_options([&](const MergeOptions& options, const MergeLayout& layout) {
    const MergeCounts counts = merge_counts(frames, rows, columns, kSpecial, options);
    EXPECT_EQ(counts.tokens, frames * P);
    EXPECT_EQ(layout.destinations.size(0), counts.destinations);
    EXPECT_EQ(layout.protected_tokens.size(0), counts.protected_tokens);
    EXPECT_EQ(counts.protected_tokens,
              static_cast<int64_t>(options.protect * static_cast<double>(frames * P)));
    at::Tensor parts = at::zeros({layout.tokens}, at::kLong);  // 1 destination, 2 source, 4 protected
    parts.index_add_(0, layout.destinations, at::full_like(layout.destinations, 1));
    parts.index_add_(0, layout.sources, at::full_like(layout.sources, 2));
    parts.index_add_(0, layout.protected_tokens, at::full_like(layout.protected_tokens, 4));
    for (int64_t token = 0; token < layout.tokens; ++token) {
      const int64_t part = parts[token].item<int64_t>();
      EXPECT_TRUE(part == 1 || part == 2 || part == 4 || part == 5) << token << ": " << part;
      if (token < P || token % P < kSpecial) {
        EXPECT_EQ(part & 1, 1) << token;
      }
    }
    for (int64_t frame = 1; frame < frames; ++frame) {  // as many drawn patches as cells
      const at::Tensor patches = parts.narrow(0, frame * P + kSpecial, rows * columns).bitwise_and(1);
      EXPECT_EQ(patches.sum().item<int64_t>(), (rows / 2) * (columns / 2));
    }
  });
}

TEST_P(MergeSizes, PlanWhatTheDescriptionSays) {
  for_all_options([&](const MergeOptions&, const MergeLayout& layout) {
    const at::Tensor metric = random_metric(layout.tokens);
    const MergePlan plan = plan_merge(layout, metric);
    const PlainPlan expected = plain_plan(layout, metric);
    ASSERT_EQ(plan.rows(), static_cast<int64_t>(expected.rows.size()));
    at::manual_seed(9);
    const at::Tensor x = at::randn({layout.tokens, 2, 3}, at::kDouble), merged = apply(plan, x);  // [M,2,3]
    ASSERT_EQ(merged.sizes(), at::IntArrayRef({plan.rows(), 2, 3}));
    for (int64_t row = 0; row < plan.rows(); ++row) {
      at::Tensor sum = at::zeros({2, 3}, at::kDouble);
      for (const int64_t token : expected.rows[row]) sum += x[token];
      const at::Tensor mean = sum / static_cast<double>(expected.rows[row].size());
      EXPECT_LE((merged[row] - mean).abs().max().item<double>(), 1e-14) << row;
    }
    const at::Tensor names = at::arange(plan.rows()).unsqueeze(1);  // [M,1]
    const at::Tensor taken = plan.undo(names);                      // [N,1]
    for (int64_t token = 0; token < layout.tokens; ++token)
      EXPECT_EQ(taken[token].item<int64_t>(), expected.row_of[token]) << token;
  });
}

TEST_P(MergeSizes, CoverEveryTokenOnceAndKeepProtectedOnes) {
  const auto& [frames, rows, columns] = GetParam();
  for_all_options([&](const MergeOptions& options, const MergeLayout& layout) {
    const MergePlan plan = plan_merge(layout, random_metric(layout.tokens));
    const int64_t s = layout.sources.size(0), d = layout.destinations.size(0),
                  p = layout.protected_tokens.size(0);
    EXPECT_EQ(plan.unmerged, std::max<int64_t>(0, s - layout.most_merged));
    EXPECT_EQ(plan.rows(), plan.unmerged + d + p);
    const MergeCounts counts = merge_counts(frames, rows, columns, kSpecial, options);
    EXPECT_LE(plan.rows(), counts.most_rows());
    if (layout.most_merged >= counts.tokens - d) {
      EXPECT_EQ(plan.rows(), counts.most_rows());
    }
    // All but the protected rows hold each token that is not a protected source exactly once.
    EXPECT_EQ(plan.offsets[plan.rows()].item<int64_t>(), s + d + p);
    const at::Tensor once = std::get<0>(plan.members.narrow(0, 0, s + d).sort());
    EXPECT_TRUE(at::equal(once, std::get<0>(at::cat({layout.sources, layout.destinations}).sort())));
    const at::Tensor tokens = at::arange(layout.tokens, at::kFloat).unsqueeze(1);  // [N,1]
    const at::Tensor taken = plan.undo(apply(plan, tokens));
    EXPECT_TRUE(at::equal(taken.index_select(0, layout.protected_tokens),
                          tokens.index_select(0, layout.protected_tokens)));
  });
}

INSTANTIATE_TEST_SUITE_P(Many, MergeSizes,
                         ::testing::Values(Shape{1, 1, 1}, Shape{1, 4, 5}, Shape{2, 1, 1}, Shape{2, 1, 7},
                                           Shape{2, 6, 1}, Shape{3, 2, 2}, Shape{3, 3, 3}, Shape{4, 4, 5},
                                           Shape{4, 5, 4}, Shape{6, 3, 2}, Shape{2, 7, 9}));

TEST(TokenMerge, DrawsTheSameFromTheSameSeedOnly) {
  const MergeLayout layout = layout_of(3, 6, 8), same = layout_of(3, 6, 8),
                    other = layout_of(3, 6, 8, {.seed = 34});
  EXPECT_TRUE(at::equal(layout.destinations, same.destinations));
  EXPECT_FALSE(at::equal(layout.destinations, other.destinations));
  at::manual_seed(1);
  const at::Tensor before = at::rand({4});
  at::manual_seed(1);
  layout_of(3, 6, 8);  // leaves everybody else's numbers alone
  EXPECT_TRUE(at::equal(at::rand({4}), before));
}

TEST(TokenMerge, GivesIdenticalFramesBackAsTheyWere) {
  at::manual_seed(2);
  const int64_t frames = 4, rows = 3, columns = 5, P = kSpecial + rows * columns;
  const at::Tensor tokens = at::randn({P, 32}).repeat({frames, 1});  // [S·P,32]
  const MergePlan plan = plan_merge(layout_of(frames, rows, columns), unit_rows(tokens));
  EXPECT_LT(plan.rows(), frames * P);
  EXPECT_LE(testing::relative_error(plan.undo(apply(plan, tokens)), tokens), 3e-7);
}

TEST(TokenMerge, WritesMeansBetweenOthers) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({3 * 20, 2, 4});  // [N,A,D]
  const MergePlan plan = plan_merge(layout_of(3, 3, 5), unit_rows(x.view({60, 8})));
  at::Tensor all = at::full({plan.rows(), 3, 2, 4}, 77.0);  // [M,3,A,D]
  for (int64_t part = 0; part < 3; ++part) {
    at::Tensor means = all.select(1, part);
    plan.apply_into(means, x + part);
  }
  for (int64_t part = 0; part < 3; ++part)
    EXPECT_TRUE(at::equal(all.select(1, part), apply(plan, x + part))) << part;
}

TEST(TokenMerge, TakesTheFirstOfEqualsAndSurvivesTokensWithoutDirection) {
  const MergeLayout layout = layout_of(2, 4, 4, {.ratio = 0.2, .protect = 0});  // 42 tokens, 8 merge of 12
  const at::Tensor first_sources = layout.sources.narrow(0, 0, 8);
  for (const at::Tensor& metric : {at::ones({42, 1}), at::zeros({42, 8}), at::full({42, 2}, std::nan(""))}) {
    const MergePlan plan = plan_merge(layout, metric);
    EXPECT_EQ(plan.unmerged, 4);
    EXPECT_TRUE(at::equal(plan.row_of.index_select(0, first_sources), at::full({8}, 4, at::kLong)));
    EXPECT_EQ(plan.members[4].item<int64_t>(), 0);
    EXPECT_TRUE(at::equal(plan.members.narrow(0, 5, 8), first_sources));
  }
}

TEST(TokenMerge, RefusesWhatDoesNotFit) {
  const MergeLayout layout = layout_of(2, 2, 2);
  EXPECT_THROW(plan_merge(layout, at::ones({17, 4})), c10::Error);
  const MergePlan plan = plan_merge(layout, at::ones({18, 4}));
  EXPECT_THROW(apply(plan, at::ones({17, 4})), c10::Error);
  EXPECT_THROW(apply(plan, at::ones({4, 18}).t()), c10::Error);
  at::Tensor room = at::empty({plan.rows() + 1, 4});
  EXPECT_THROW(plan.apply_into(room, at::ones({18, 4})), c10::Error);
  EXPECT_THROW(layout_of(2, 2, 2, {.ratio = 2}), std::invalid_argument);
}

}  // namespace
}  // namespace vggt
