// Linear layers by split products beside cuBLAS in fp32 and TF32, and products of rows in several matrices
// beside a copy that joins them, at the model's sizes: all timed in turns.
// bench_linear_cuda [runs] [rows ...]
#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "model/layers/linear.h"
#include "model/layers/split_linear.h"
#include "tests/bench/gpu_timing.h"

namespace {

using namespace vggt;

struct Layer {
  const char* name;
  int64_t in, out;
  bool gelu;  // of what comes in
};
constexpr Layer kLayers[] = {{"qkv", 1024, 3072, false},
                             {"proj", 1024, 1024, false},
                             {"fc1", 1024, 4096, false},
                             {"gelu, fc2", 4096, 1024, true}};

struct Contender {
  std::string name;
  std::function<at::Tensor()> run;
  std::vector<double> seconds = {};
  double error = 0;
};

void time_in_turns(std::vector<Contender>& contenders, int runs, const char* name, int64_t rows, int64_t in,
                   int64_t out) {
  for (int i = 0; i < runs; ++i) {
    for (Contender& c : contenders) c.seconds.push_back(gpu_seconds(c.run));
  }
  const double flop = 2.0 * static_cast<double>(rows * in * out);
  for (Contender& c : contenders) {
    std::sort(c.seconds.begin(), c.seconds.end());
    std::printf("%-10s %7ld x %4ld -> %4ld  %-12s %7.1f TFLOP/s [%.1f, %.1f]  error %.2e\n", name, rows, in,
                out, c.name.c_str(), flop / c.seconds[c.seconds.size() / 2] / 1e12,
                flop / c.seconds.back() / 1e12, flop / c.seconds.front() / 1e12, c.error);
  }
}

/// The product that ends attention, of so many ranks' heads side by side: with and without a copy that joins
/// them; and of one matrix, which no rank has.
void bench_joined(at::ScalarType type, int64_t ranks, int64_t rows, int runs) {
  constexpr int64_t kDim = 1024;
  const auto options = at::device(at::kCUDA).dtype(type);
  const at::Tensor w = at::randn({kDim, kDim}, options) * 0.03, b = at::randn({kDim}, options);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < ranks; ++i) parts.push_back(at::randn({rows, kDim / ranks}, options));
  const at::Tensor whole = at::cat(parts, 1);
  at::Tensor y = at::empty({rows, kDim}, options);
  const Linear layer(w, b, ComputeKind{type, at::kFloat});
  std::vector<Contender> contenders{{"one matrix",
                                     [&] {
                                       layer.write(y, whole);
                                       return y;
                                     }},
                                    {"a copy",
                                     [&] {
                                       layer.write(y, at::cat(parts, 1));
                                       return y;
                                     }},
                                    {"joined", [&] {
                                       layer.write_joined(y, parts);
                                       return y;
                                     }}};
  const int64_t sampled = std::min<int64_t>(rows, 512);
  const at::Tensor exact = at::linear(whole.narrow(0, rows - sampled, sampled).to(at::kDouble),
                                      w.to(at::kDouble), b.to(at::kDouble));
  for (Contender& c : contenders) {
    const at::Tensor found = c.run().narrow(0, rows - sampled, sampled).to(at::kDouble);
    c.error = ((found - exact).norm() / exact.norm()).item<double>();
  }
  const std::string name = std::string(type == at::kFloat ? "fp32, " : "bf16, ") + std::to_string(ranks);
  time_in_turns(contenders, runs, name.c_str(), rows, kDim, kDim);
}

void bench(const Layer& layer, int64_t rows, int runs) {
  const auto options = at::device(at::kCUDA).dtype(at::kFloat);
  const at::Tensor x = at::randn({rows, layer.in}, options), w = at::randn({layer.out, layer.in}, options),
                   b = at::randn({layer.out}, options);
  const SplitWeight split = split_weight(w);
  auto torch = [&](bool tf32) {
    at::globalContext().setAllowTF32CuBLAS(tf32);
    at::Tensor y = at::linear(layer.gelu ? at::gelu(x) : x, w, b);
    at::globalContext().setAllowTF32CuBLAS(false);
    return y;
  };
  std::vector<Contender> contenders{{"cuBLAS fp32", [&] { return torch(false); }},
                                    {"cuBLAS TF32", [&] { return torch(true); }},
                                    {"split", [&] { return linear_split(x, split, b, layer.gelu); }}};
  const int64_t sampled = std::min<int64_t>(rows, 512);
  const at::Tensor some = x.narrow(0, rows - sampled, sampled).to(at::kDouble);
  const at::Tensor exact =
      at::linear(layer.gelu ? at::gelu(some) : some, w.to(at::kDouble), b.to(at::kDouble));
  for (Contender& c : contenders) {
    const at::Tensor y = c.run().narrow(0, rows - sampled, sampled).to(at::kDouble);
    c.error = ((y - exact).norm() / exact.norm()).item<double>();
  }
  time_in_turns(contenders, runs, layer.name, rows, layer.in, layer.out);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 11;
  std::vector<int64_t> rows;
  for (int i = 2; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {1041, 4164, 52050, 104100};
  cudaDeviceProp device{};
  if (runs < 1 || cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::fprintf(stderr, "bench_linear_cuda [runs] [rows ...], on a GPU\n");
    return 2;
  }
  std::printf("%s; fp32 where nothing else is said; median of %d runs [least, most]\n", device.name, runs);
  for (int64_t count : rows) {
    for (const Layer& layer : kLayers) bench(layer, count, runs);
    for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
      for (const int64_t ranks : {2, 4, 8}) bench_joined(type, ranks, count, runs);
    }
  }
  return 0;
}
