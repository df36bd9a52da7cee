// Matching of tokens on a GPU, beside products of which every score goes to memory and is read again, and
// beside cuBLAS' product alone: all timed in turns.
// bench_token_match [runs] [sources destinations columns]
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "model/layers/fused_match.h"
#include "model/trunk/token_match.h"
#include "tests/bench/gpu_timing.h"

namespace {

using namespace vggt;

struct Contender {
  const char* name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

at::Tensor unit_rows(int64_t rows, int64_t columns, at::ScalarType type) {
  const at::Tensor x = at::randn({rows, columns}, at::device(at::kCUDA).dtype(at::kFloat));
  return (x / x.norm(2, {1}, true)).to(type).contiguous();
}

/// What it costs to keep all scores, in tiles of kMatchScores.
void match_tiles(const at::Tensor& x, const at::Tensor& y) {
  const int64_t rows = std::max<int64_t>(1, kMatchScores / y.size(0));
  for (int64_t top = 0; top < x.size(0); top += rows) {
    const at::Tensor some = x.narrow(0, top, std::min(rows, x.size(0) - top));  // [rows,C]
    (x.element_size() == 2 ? at::mm(some, y.t(), at::kFloat) : at::mm(some, y.t())).max(1);
  }
}

/// cuBLAS alone, into memory for 2^32 scores at a time.
void products(const at::Tensor& x, const at::Tensor& y) {
  const int64_t rows = std::max<int64_t>(1, (int64_t{1} << 32) / y.size(0) / 256 * 256);
  for (int64_t top = 0; top < x.size(0); top += rows)
    at::mm(x.narrow(0, top, std::min(rows, x.size(0) - top)), y.t());
}

void bench(at::ScalarType type, int64_t s, int64_t d, int64_t columns, int runs) {
  at::manual_seed(1);
  const at::Tensor x = unit_rows(s, columns, type), y = unit_rows(d, columns, type);
  TokenMatches matches;
  std::vector<Contender> contenders{{"fused", [&] { matches = best_destinations(x, y); }},
                                    {"tiles, max", [&] { match_tiles(x, y); }},
                                    {"cuBLAS alone", [&] { products(x, y); }}};
  for (Contender& c : contenders) c.run();
  const int64_t sampled = std::min<int64_t>(s, 2048);
  const at::Tensor exact =
      at::mm(x.narrow(0, s - sampled, sampled).to(at::kDouble), y.to(at::kDouble).t());  // [sampled,d]
  const at::Tensor chosen =
      exact.gather(1, matches.best.narrow(0, s - sampled, sampled).unsqueeze(1)).squeeze(1);
  const double missed = (std::get<0>(exact.max(1)) - chosen).max().item<double>(),
               error = (matches.score.narrow(0, s - sampled, sampled) - chosen).abs().max().item<double>();
  for (int i = 0; i < runs; ++i) {
    for (Contender& c : contenders) c.seconds.push_back(gpu_seconds(c.run));
  }
  const double flop = 2.0 * static_cast<double>(s * d) * static_cast<double>(columns);
  std::printf("%s, %ld of %ld, %ld columns: scores off by %.1e, best missed by %.1e%s\n", at::toString(type),
              s, d, columns, error, missed, can_match_fused(x, y) ? "" : " (not fused)");
  for (Contender& c : contenders) {
    std::sort(c.seconds.begin(), c.seconds.end());
    const double median = c.seconds[c.seconds.size() / 2];
    std::printf("  %-12s %9.3f ms  %7.1f TFLOP/s [%.1f, %.1f]\n", c.name, median * 1e3, flop / median / 1e12,
                flop / c.seconds.back() / 1e12, flop / c.seconds.front() / 1e12);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 5;
  struct Size {
    int64_t s, d, columns;
  };
  std::vector<Size> sizes{
      {302000, 106000, 1024}, {75500, 26500, 1024}, {3000, 1400, 1024}, {75500, 26500, 384}};
  if (argc == 5) sizes = {{std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4])}};
  cudaDeviceProp device{};
  if (runs < 1 || (argc > 2 && argc != 5) || cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::fprintf(stderr, "bench_token_match [runs] [sources destinations columns], on a GPU\n");
    return 2;
  }
  std::printf("%s; median of %d runs [least, most]\n", device.name, runs);
  for (const Size& size : sizes) {
    for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
      bench(type, size.s, size.d, size.columns, runs);
  }
  return 0;
}
