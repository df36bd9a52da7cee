#include "attention/cuda/fused_check.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

#include "attention/cuda/fused.h"
#include "attention/reference.h"
#include "attention/result.h"

namespace vggt {
namespace {

using Key = std::tuple<CudaKernel, at::ScalarType, int64_t, at::DeviceIndex>;

struct Known {
  std::mutex mutex;
  std::map<Key, bool> offered;
};

Known& known() {
  static Known known;
  return known;
}

/// ‖Y − Y₆₄‖ / ‖Y₆₄‖ that our variants for the type may have (README.md); dot products of 128 terms have √2
/// the error of those of 64.
double limit_of(at::ScalarType type, int64_t dim) {
  const double limit = type == at::kFloat ? 1.5e-6 : type == at::kHalf ? 5e-4 : 4e-3;
  return limit * std::sqrt(std::max(1.0, static_cast<double>(dim) / 64));
}

bool passes(CudaKernel fused, at::ScalarType type, int64_t dim, at::Device device) try {
  constexpr int64_t kHeads = 2, kTokens = 200;  // not a whole number of any kernel's tiles
  constexpr double kMostOfLse = 1e-4;  // of the log-sum-exp, in nats: another base is off by 1 and more
  const at::Tensor all = at::randn({1, kTokens, 3, kHeads, dim}, at::make_generator<at::CPUGeneratorImpl>(0))
                             .to(type)
                             .permute({2, 0, 3, 1, 4});  // [3,1,A,N,D]
  AttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(dim));
  options.want = AttentionWant::output_lse;
  const at::Tensor on_device = all.to(device);
  const AttentionResult got = attention_fused(on_device[0], on_device[1], on_device[2], options, fused);
  const at::Tensor exact = all.to(at::kDouble);
  const AttentionResult want =
      finalise_own(attention_by_definition(exact[0], exact[1], exact[2], options.scale), at::kDouble);
  const at::Tensor off = got.out.cpu().to(at::kDouble) - want.out;
  const double error = (off.norm() / want.out.norm()).item<double>();
  const double of_lse = (got.lse.cpu().to(at::kDouble) - want.lse).abs().max().item<double>();
  return error <= limit_of(type, dim) && of_lse <= kMostOfLse;  // a NaN does not pass
} catch (const std::exception&) {
  return false;  // LibTorch says by an error that it lacks the kernel, or that memory has run out
}

}  // namespace

bool fused_offered(CudaKernel fused, at::ScalarType type, int64_t dim, at::Device device) {
  const std::lock_guard lock(known().mutex);
  const Key key{fused, type, dim, device.index()};
  const auto found = known().offered.find(key);
  if (found != known().offered.end()) return found->second;
  return known().offered[key] = passes(fused, type, dim, device);
}

void withdraw_fused(CudaKernel fused, at::ScalarType type, int64_t dim, at::Device device) {
  const std::lock_guard lock(known().mutex);
  known().offered[{fused, type, dim, device.index()}] = false;
}

}  // namespace vggt
