// Linear layers in bf16 with GELU or the residual in their products, beside cuBLAS and a pass over its
// result: all timed in turns. bench_half_linear [runs] [rows]
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "model/layers/half_linear.h"

namespace {

using namespace vggt;

struct Contender {
  const char* name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

double seconds_of(const std::function<void()>& run) {
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  cudaEvent_t begin, end;
  float milliseconds = 0;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, stream);
  run();
  cudaEventRecord(end, stream);
  if (cudaEventSynchronize(end) != cudaSuccess ||
      cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess) {
    std::fprintf(stderr, "timing failed: %s\n", cudaGetErrorString(cudaGetLastError()));
    std::exit(1);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1e3;
}

void bench(int64_t rows, int64_t in, int64_t out, int runs) {
  const auto half = at::device(at::kCUDA).dtype(at::kBFloat16);
  const auto single = half.dtype(at::kFloat);
  const at::Tensor x = at::randn({rows, in}, half), bias = at::randn({out}, half),
                   weight = at::randn({out, in}, half) / std::sqrt(static_cast<double>(in)),
                   gamma = at::randn({out}, single) * 1e-3;
  at::Tensor y = at::empty({rows, out}, half), sum = at::randn({rows, out}, single);
  std::vector<Contender> contenders{
      {"linear", [&] { at::addmm_out(y, bias, x, weight.t()); }},
      {"linear, gelu_",
       [&] {
         at::addmm_out(y, bias, x, weight.t());
         at::gelu_(y);
       }},
      {"linear_gelu", [&] { linear_gelu_half(y, x, weight, bias); }},
      {"linear, addcmul_",
       [&] {
         at::addmm_out(y, bias, x, weight.t());
         sum.addcmul_(y, gamma);
       }},
      {"linear_residual", [&] { linear_residual_half(sum, x, weight, bias, gamma); }}};
  for (Contender& c : contenders) c.run();
  for (int i = 0; i < runs; ++i) {
    for (Contender& c : contenders) c.seconds.push_back(seconds_of(c.run));
  }
  const double flop = 2.0 * static_cast<double>(rows * in * out);
  for (Contender& c : contenders) {
    std::sort(c.seconds.begin(), c.seconds.end());
    const double median = c.seconds[c.seconds.size() / 2];
    std::printf("%7ld x %4ld -> %4ld  %-16s %7.3f ms  %6.1f TFLOP/s [%.1f, %.1f]\n", rows, in, out, c.name,
                median * 1e3, flop / median / 1e12, flop / c.seconds.back() / 1e12,
                flop / c.seconds.front() / 1e12);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 11;
  const int64_t rows = argc > 2 ? std::atoll(argv[2]) : 65536;
  cudaDeviceProp device{};
  if (runs < 1 || rows < 1 || cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::fprintf(stderr, "bench_half_linear [runs] [rows], on a GPU\n");
    return 2;
  }
  std::printf("%s; bf16; median of %d runs [least, most]\n", device.name, runs);
  bench(rows, 1024, 4096, runs);
  bench(rows, 4096, 1024, runs);
  bench(rows, 1024, 1024, runs);
  bench(rows, 1024, 3072, runs);
  return 0;
}
