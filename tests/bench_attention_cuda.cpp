// attention()'s variants beside LibTorch's backends on a GPU: all of a size timed in turns, in one run.
// bench_attention_cuda [runs] [tokens ...]
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "attention/cuda.h"

namespace {

using vggt::AttentionVariant;

struct Inputs {
  at::Tensor q, k, v;  // [1,A,N,D]
};

struct Contender {
  std::string name;
  bool ours = false;
  std::function<at::Tensor(const Inputs&)> run;
  std::vector<double> seconds = {};
  double error = 0, extra_bytes = 0;
};

Contender of_variant(const char* name, AttentionVariant variant) {
  return {name, true, [variant](const Inputs& x) {
            vggt::AttentionOptions options;
            options.variant = variant;
            return vggt::attention(x.q, x.k, x.v, options).out;
          }};
}

std::vector<Contender> contenders_for(at::ScalarType type, int64_t heads, int64_t tokens, int64_t dim) {
  const bool fp32 = type == at::kFloat;
  const vggt::CudaElement element = fp32                    ? vggt::CudaElement::fp32
                                    : type == at::kBFloat16 ? vggt::CudaElement::bf16
                                                            : vggt::CudaElement::fp16;
  const vggt::CudaDevice device = vggt::cuda_device(at::Device("cuda:0"));
  std::vector<Contender> all;
  for (auto [name, variant] : {std::pair{"strict", AttentionVariant::strict},
                               {"split", AttentionVariant::split},
                               {"turbo", AttentionVariant::turbo},
                               {"half", AttentionVariant::half}}) {
    if (variant_refusal(variant, element, dim, device).empty()) all.push_back(of_variant(name, variant));
  }
  all.push_back({"mem-efficient", false, [](const Inputs& x) {
                   return std::get<0>(
                       at::_scaled_dot_product_efficient_attention(x.q, x.k, x.v, std::nullopt, false));
                 }});
  if (!fp32) {
    all.push_back({"flash", false, [](const Inputs& x) {
                     return std::get<0>(at::_scaled_dot_product_flash_attention(x.q, x.k, x.v));
                   }});
    all.push_back({"cudnn", false, [](const Inputs& x) {
                     return std::get<0>(
                         at::_scaled_dot_product_cudnn_attention(x.q, x.k, x.v, std::nullopt, false));
                   }});
  }
  constexpr double kMostLogits = 8e9;  // bytes that the math backend may hold of them
  if (4.0 * static_cast<double>(heads * tokens) * static_cast<double>(tokens) < kMostLogits) {
    all.push_back({"math", false, [](const Inputs& x) {
                     return std::get<0>(at::_scaled_dot_product_attention_math(x.q, x.k, x.v));
                   }});
  }
  return all;
}

void check(cudaError_t error) {
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

/// Seconds per call, of `calls` calls.
double time_of(const Contender& c, const Inputs& x, int64_t calls) {
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  check(cudaEventRecord(start, stream));
  for (int64_t i = 0; i < calls; ++i) c.run(x);
  check(cudaEventRecord(end, stream));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, end));
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(end));
  return 1e-3 * milliseconds / static_cast<double>(calls);
}

double peak_bytes() {
  return static_cast<double>(c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].peak);
}

/// One call: its error over some rows, and the memory that it takes besides its output.
void warm_up(Contender& c, const Inputs& x, const at::Tensor& exact) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  const double before = peak_bytes();
  const at::Tensor out = c.run(x);
  c.extra_bytes = peak_bytes() - before - static_cast<double>(out.numel() * out.element_size());
  const at::Tensor some = out.narrow(2, 0, exact.size(2)).to(at::kDouble);
  c.error = ((some - exact).norm() / exact.norm()).item<double>();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double spread(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return (x[3 * x.size() / 4] - x[x.size() / 4]) / x[x.size() / 2];
}

void compare(at::ScalarType type, int64_t heads, int64_t tokens, int64_t dim, int runs) {
  at::manual_seed(0);
  const at::Tensor all =
      at::randn({1, tokens, 3, heads, dim}, at::TensorOptions().device(at::Device("cuda:0")))
          .to(type)
          .permute({2, 0, 3, 1, 4});
  const Inputs x{all[0], all[1], all[2]};  // [1,A,N,D], as in the model
  const at::Tensor few = x.q.narrow(2, 0, std::min<int64_t>(tokens, 64)).to(at::kDouble);  // [1,A,few,D]
  const at::Tensor exact = vggt::attention(few, x.k.to(at::kDouble), x.v.to(at::kDouble)).out;
  std::vector<Contender> contenders = contenders_for(type, heads, tokens, dim);
  for (Contender& c : contenders) warm_up(c, x, exact);
  for (int i = 0; i < runs; ++i) {
    for (Contender& c : contenders) {
      const int64_t calls = i == 0 ? 1 : std::max<int64_t>(1, static_cast<int64_t>(5e-3 / c.seconds[0]));
      c.seconds.push_back(time_of(c, x, calls));
    }
  }
  double best = INFINITY;
  for (const Contender& c : contenders) {
    if (!c.ours) best = std::min(best, median(c.seconds));
  }
  const double tera = 4e-12 * static_cast<double>(heads * tokens) * static_cast<double>(tokens * dim);
  for (const Contender& c : contenders) {
    const double seconds = median(c.seconds);
    std::printf("%-9s %4lld %7lld %4lld %-14s %11.3f %5.1f%% %8.1f %7.2f %9.1e %9.1f\n", at::toString(type),
                static_cast<long long>(heads), static_cast<long long>(tokens), static_cast<long long>(dim),
                c.name.c_str(), 1e3 * seconds, 100 * spread(c.seconds), tera / seconds, best / seconds,
                c.error, c.extra_bytes / 1e6);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (!at::hasCUDA()) {
    std::printf("no GPU\n");
    return 0;
  }
  const int runs = argc > 1 ? std::max(3, std::atoi(argv[1])) : 7;
  std::vector<int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {1041, 4164, 16656, 104100};
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, 0));
  std::printf("GPU: %s; %d runs each, in turns; spread: interquartile range over median\n", gpu.name, runs);
  std::printf("ratio: time of LibTorch's fastest over this one; error: 2-norm against float64, some rows\n");
  std::printf("%-9s %4s %7s %4s %-14s %11s %6s %8s %7s %9s %9s\n", "type", "A", "N", "D", "kernel", "ms",
              "spread", "TFLOP/s", "ratio", "error", "extra MB");
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (int64_t tokens : sizes) compare(type, 16, tokens, 64, runs);
  }
  return 0;
}
