// Times what merging costs beside its matching, its products and its attention, each part beside LibTorch's
// operations for it: bench_merge_parts [FRAMES...]
// Prints microseconds (the median of 21) at 392x518 and 1024 columns. Sources go to random destinations, and
// a hundredth of them to one.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "model/layers/row_passes.h"
#include "model/trunk/token_merge.h"
#include "tests/bench/gpu_timing.h"

namespace {

using namespace vggt;

constexpr int64_t kHeads = 16, kDim = 64, kColumns = kHeads * kDim;

double microseconds(const std::function<void()>& work) {
  return 1e6 * median_gpu_seconds(work);
}

/// bytes: that must be moved.
void compare(const char* name, double bytes, const std::function<void()>& ours,
             const std::function<void()>& libtorch) {
  const double a = microseconds(ours), b = microseconds(libtorch);
  std::printf("  %-34s %8.1f us %6.0f GB/s   LibTorch %8.1f us %6.0f GB/s   %.2f x\n", name, a,
              1e-3 * bytes / a, b, 1e-3 * bytes / b, b / a);
}

void compare_means(const char* name, at::ScalarType type, const MergePlan& plan) {
  const int64_t M = plan.rows(), N = plan.row_of.size(0);
  const at::Tensor x = at::randn({N, kHeads, kDim}, at::device(at::kCUDA).dtype(type));
  at::Tensor merged = at::empty({M, 3, kHeads, kDim}, x.options()), means = merged.select(1, 1);
  const double bytes = static_cast<double>(x.element_size()) * static_cast<double>((N + M) * kColumns);
  compare(
      name, bytes, [&] { plan.apply_into(means, x); },
      [&] {
        means.copy_(std::get<0>(at::embedding_bag(x.view({N, kColumns}), plan.members, plan.offsets, false, 1,
                                                  false, {}, true))
                        .view({M, kHeads, kDim}));
      });
}

void bench(int64_t frames) {
  at::manual_seed(1);
  const auto options = at::device(at::kCUDA).dtype(at::kFloat);
  const MergeLayout layout = merge_layout(frames, 28, 37, 5, {}, at::kCUDA);
  const int64_t N = layout.tokens, s = layout.sources.size(0), d = layout.destinations.size(0);
  TokenMatches matches{at::rand({s}, options), at::randint(d, {s}, options.dtype(at::kLong))};
  const MergePlan spread = plan_merge(layout, matches);
  matches.best.narrow(0, s / 2, s / 100).fill_(d / 2);
  const MergePlan hub = plan_merge(layout, matches);
  std::printf("%ld frames: %ld tokens, %ld rows\n", frames, N, spread.rows());
  std::printf("  %-34s %8.1f us\n", "plan", microseconds([&] { plan_merge(layout, matches); }));
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const std::string name = at::toString(type);
    compare_means(("means, " + name).c_str(), type, spread);
    compare_means(("the same with a popular row, " + name).c_str(), type, hub);
    Binder names(nullptr, {at::kFloat, at::kFloat}, at::kCUDA);
    LayerNorm norm(names, "norm", kColumns);
    norm.weight = at::rand({kColumns}, options);
    norm.bias = at::rand({kColumns}, options);
    const at::Tensor rows = at::randn({N, kColumns}, options);
    at::Tensor metric = at::empty({s, kColumns}, options.dtype(type));
    compare(("metric of the sources, " + name).c_str(),
            static_cast<double>(s * kColumns) * static_cast<double>(4 + metric.element_size()),
            [&] { unit_norm_rows(metric, rows, norm, &layout.sources); },
            [&] { unit_norm_rows(metric, rows.index_select(0, layout.sources), norm); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::stoll(argv[i]));
  for (const int64_t frames : sizes.empty() ? std::vector<int64_t>{50, 100, 400} : sizes) bench(frames);
  return 0;
}
