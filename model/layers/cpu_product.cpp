#include "model/layers/cpu_product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstring>

namespace vggt {
namespace {

/// Whether MKL knows this processor as one of Intel's.
bool is_intel() {
#if defined(__x86_64__)
  unsigned most = 0;
  std::array<unsigned, 3> name{};  // of the vendor: EBX, EDX, ECX
  if (__get_cpuid(0, &most, &name[0], &name[2], &name[1]) == 0) return true;
  return std::memcmp(name.data(), "GenuineIntel", 12) == 0;
#else
  return true;  // and elsewhere LibTorch has no MKL
#endif
}

}  // namespace

bool onednn_pays(const at::Tensor& weight, bool few_rows) {
  static const bool fits = at::hasMKLDNN() && !is_intel();
  return fits && !few_rows && weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor linear_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  using Product = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             std::string_view, c10::List<std::optional<at::Scalar>>,
                             std::optional<std::string_view>);
  static const auto product =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Product>();
  const auto of = [&](const at::Tensor& rows) {
    return product.call(rows, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
  };
  // Its kernels for fewer rows add in another order. Without AVX-512 so do those for rows that are left over.
  const int64_t in = weight.size(1), rows = x.numel() / in;
  if (rows >= kFewestRows || rows == 0) return of(x);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return of(at::constant_pad_nd(x.reshape({rows, in}), {0, 0, 0, kFewestRows - rows}))
      .narrow(0, 0, rows)
      .reshape(shape);
}

}  // namespace vggt
