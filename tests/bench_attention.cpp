// attention() on a CPU beside LibTorch's scaled_dot_product_attention: both sides of every comparison are
// timed in turns, in one run. bench_attention [runs]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "attention/attention.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  int64_t batch, heads, tokens, dim;
};

struct Timing {
  double median = 0, spread = 0;  // seconds; (third quartile - first) / median
};

Timing summary(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  Timing t;
  t.median = seconds[n / 2];
  t.spread = (seconds[3 * n / 4] - seconds[n / 4]) / t.median;
  return t;
}

/// Seconds per call over `calls` calls.
template <class F>
double time_of(F call, int64_t calls) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(calls);
}

double error_of(const at::Tensor& got, const at::Tensor& exact) {
  return ((got.to(at::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
}

void compare(const Case& c, int threads, int runs) {
  at::set_num_threads(threads);
  at::manual_seed(0);
  const at::Tensor all = at::randn({c.batch, c.tokens, 3, c.heads, c.dim}).permute({2, 0, 3, 1, 4});
  const at::Tensor q = all[0], k = all[1], v = all[2];  // [B,A,N,D], as in the model
  at::Tensor a, b;
  auto ours = [&] { a = vggt::attention(q, k, v).out; };
  auto theirs = [&] { b = at::scaled_dot_product_attention(q, k, v); };
  ours();
  theirs();
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(2e-3 / time_of(ours, 1)));
  std::vector<double> our_seconds, their_seconds;
  for (int i = 0; i < runs; ++i) {
    our_seconds.push_back(time_of(ours, calls));
    their_seconds.push_back(time_of(theirs, calls));
  }
  const Timing x = summary(our_seconds), y = summary(their_seconds);
  const at::Tensor few = q.narrow(2, 0, std::min<int64_t>(c.tokens, 256)).to(at::kDouble);
  const at::Tensor exact = vggt::attention(few, k.to(at::kDouble), v.to(at::kDouble)).out;
  auto part = [&](const at::Tensor& t) { return t.narrow(2, 0, few.size(2)); };
  const double tera = 4e-12 * static_cast<double>(c.batch * c.heads * c.tokens * c.tokens * c.dim);
  std::printf("%4d %6lld %4lld %7lld %4lld %12.1f %5.1f%% %12.1f %5.1f%% %8.2f %9.3f %9.1e %9.1e\n", threads,
              static_cast<long long>(c.batch), static_cast<long long>(c.heads),
              static_cast<long long>(c.tokens), static_cast<long long>(c.dim), 1e6 * x.median, 100 * x.spread,
              1e6 * y.median, 100 * y.spread, y.median / x.median, tera / x.median, error_of(part(a), exact),
              error_of(part(b), exact));
  std::fflush(stdout);
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(3, std::atoi(argv[1])) : 7;
  const int all_threads = at::get_num_threads();
  std::printf("machine: %s, %d threads, LibTorch on %s\n", processor().c_str(), all_threads,
              at::get_cpu_capability().c_str());
  std::printf(
      "%d runs each, in turns; spread: interquartile range over median; ratio above 1: we are faster\n",
      runs);
  std::printf("%4s %6s %4s %7s %4s %12s %6s %12s %6s %8s %9s %9s %9s\n", "thr", "B", "A", "N", "D", "ours us",
              "spread", "LibTorch us", "spread", "ratio", "TFLOP/s", "error", "theirs");
  std::vector<int> thread_counts{1};
  if (all_threads > 1) thread_counts.push_back(all_threads);
  for (int threads : thread_counts) {
    for (int64_t heads : {1, 16}) {
      for (int64_t dim : {64, 128}) {
        for (int64_t tokens : {1, 1041, 4164}) compare({1, heads, tokens, dim}, threads, runs);
      }
    }
    compare({512, 8, 8, 48}, threads, runs);  // the tracker, over time
    compare({8, 8, 576, 48}, threads, runs);  // the tracker, over points
  }
  return 0;
}
