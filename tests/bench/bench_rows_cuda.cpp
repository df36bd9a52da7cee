// Times the row-wise passes of a block beside LibTorch's operations: bench_rows_cuda [ROWS [COLUMNS]]
// Prints milliseconds (the median of 21) and the gigabytes a second of what the pass must read and write.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "model/layers/rope.h"
#include "model/layers/row_passes.h"
#include "tests/bench/gpu_timing.h"

namespace {

using namespace vggt;

double milliseconds(const std::function<void()>& work) {
  return 1e3 * median_gpu_seconds(work);
}

/// numbers: of x; bytes: of one number that the pass must move.
void compare(const char* name, int64_t numbers, double bytes, const std::function<void()>& ours,
             const std::function<void()>& libtorch) {
  const double a = milliseconds(ours), b = milliseconds(libtorch), moved = 1e-6 * bytes * numbers;
  std::printf("  %-34s %7.3f ms %6.0f GB/s   LibTorch %7.3f ms %6.0f GB/s   %.2f x\n", name, a, moved / a, b,
              moved / b, b / a);
}

void bench(at::ScalarType type, int64_t R, int64_t C) {
  const auto options = at::device(at::kCUDA).dtype(at::kFloat);
  const double wide = at::elementSize(type);
  std::printf("%s, %lld x %lld\n", at::toString(type), static_cast<long long>(R), static_cast<long long>(C));
  Binder names(nullptr, {at::kFloat, at::kFloat}, at::kCUDA);
  LayerNorm norm(names, "norm", C);
  norm.weight = at::rand({C}, options);
  norm.bias = at::rand({C}, options);
  const at::Tensor gamma = at::rand({C}, options) * 1e-3, values = at::randn({R, C}, options).to(type);
  const at::Tensor row_of = at::randint(R / 3, {R}, options.dtype(at::kLong)),
                   like = at::empty({0}, values.options());
  at::Tensor x = at::randn({R, C}, options), y = at::empty_like(values);
  compare(
      "LayerNorm", R * C, 4 + wide, [&] { norm_rows(y, x, norm); }, [&] { norm(x).to(type); });
  compare(
      "LayerNorm of unit length", R * C, 4 + wide, [&] { unit_norm_rows(y, x, norm); },
      [&] {
        const at::Tensor normed = norm(x);
        at::div_out(y, normed, normed.norm(2, {1}, true).clamp_min_(1e-12));
      });
  compare(
      "residual", R * C, 8 + wide,
      [&] {
        add_rows(x, x, {values, gamma});
      },
      [&] { x.addcmul_(values, gamma); });
  compare(
      "residual + LayerNorm", R * C, 8 + 2 * wide,
      [&] {
        add_norm_rows(y, x, x, {values, gamma}, norm);
      },
      [&] {
        x.addcmul_(values, gamma);
        norm(x).to(type);
      });
  compare(
      "the same of merged rows", R * C, 8 + 2 * wide,
      [&] {
        add_norm_rows(y, x, x, {values, gamma, &row_of}, norm);
      },
      [&] {
        x.addcmul_(values.index_select(0, row_of), gamma);
        norm(x).to(type);
      });
  at::Tensor hidden = at::randn({R, 4 * C}, options).to(type);
  compare(
      "GELU", 4 * R * C, 2 * wide, [&] { gelu_rows_(hidden); }, [&] { at::gelu_(hidden); });
  const Rope rope(28, 37, 5, 64, 100, options);
  const int64_t T = R / rope.tokens_per_frame * rope.tokens_per_frame;
  at::Tensor qkv = at::randn({T, 3, C / 64, 64}, options).to(type);
  const at::Tensor weight = at::rand({64}, options), bias = at::rand({64}, options), q = qkv.select(1, 0);
  compare(
      "q or k norm + RoPE; LibTorch: a copy", T * C, 2 * wide,
      [&] { norm_rope_(q, weight, bias, 1e-5, rope); }, [&] { qkv.select(1, 2).copy_(q); });
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::stoll(argv[1]) : 65536,
                columns = argc > 2 ? std::stoll(argv[2]) : 1024;
  for (auto type : {at::kBFloat16, at::kFloat}) bench(type, rows, columns);
  return 0;
}
