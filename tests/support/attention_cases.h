#pragma once
// Inputs for attention(), and errors against float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attention/attention.h"

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Qkv {
  at::Tensor q, k, v;  // [B,A,Nq,D], [B,A,Nk,D], [B,A,Nk,D]
};

inline at::TensorOptions on(at::ScalarType type, const char* device = "cpu") {
  return at::TensorOptions().dtype(type).device(at::Device(device));
}

inline Qkv random_qkv(int64_t b, int64_t a, int64_t nq, int64_t nk, int64_t d, at::TensorOptions options,
                      int seed = 0) {
  at::manual_seed(seed);
  auto make = [&](int64_t n) { return at::randn({b, a, n, d}, on(at::kFloat)).to(options); };
  return {make(nq), make(nk), make(nk)};
}

/// As the model has them: slices of one [B,N,3,A,D].
inline Qkv model_qkv(int64_t b, int64_t a, int64_t n, int64_t d, at::TensorOptions options, int seed = 0) {
  at::manual_seed(seed);
  const at::Tensor all = at::randn({b, n, 3, a, d}, on(at::kFloat)).to(options).permute({2, 0, 3, 1, 4});
  return {all[0], all[1], all[2]};  // [B,A,N,D]
}

inline vggt::AttentionResult exact(const Qkv& x, double scale = 0) {
  vggt::AttentionOptions options;
  options.scale = scale;
  options.want = vggt::AttentionWant::output_lse;
  return vggt::attention(x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble), options);
}

/// What `size` of the difference is, relative to that of `want`; infinite where a NaN is on one side only.
template <class F>
double compared(const at::Tensor& got, const at::Tensor& want, F size) {
  const at::Tensor a = got.to(at::kCPU, at::kDouble), b = want.to(at::kCPU, at::kDouble);
  if (a.sizes() != b.sizes() || !at::equal(a.isfinite(), b.isfinite())) {
    return std::numeric_limits<double>::infinity();
  }
  if (a.numel() == 0) return 0;
  const at::Tensor all = at::nan_to_num(b, 0, 0, 0), difference = at::nan_to_num(a - b, 0, 0, 0);
  return size(difference).template item<double>() / std::max(size(all).template item<double>(), 1e-30);
}

/// Largest difference, relative to the largest value.
inline double error_of(const at::Tensor& got, const at::Tensor& want) {
  return compared(got, want, [](const at::Tensor& x) { return x.abs().max(); });
}

/// ||got - want|| / ||want||
inline double norm_error_of(const at::Tensor& got, const at::Tensor& want) {
  return compared(got, want, [](const at::Tensor& x) { return x.norm(); });
}

inline double rounding_floor(at::ScalarType type) {
  return type == at::kBFloat16 ? std::ldexp(1.0, -9)
         : type == at::kHalf   ? std::ldexp(1.0, -12)
                               : std::ldexp(1.0, -22);
}

inline void expect_joinable(const at::Tensor& x) {
  EXPECT_TRUE(x.transpose(1, 2).is_contiguous()) << x.strides();
}

inline std::string shape(int64_t nq, int64_t nk, int64_t d) {
  return "Nq " + std::to_string(nq) + " Nk " + std::to_string(nk) + " D " + std::to_string(d);
}

/// Expects a c10::Error whose message holds `text`.
template <class F>
void fails_with(const std::string& text, F call) {
  try {
    call();
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    return;
  }
  ADD_FAILURE() << "no error about: " << text;
}
