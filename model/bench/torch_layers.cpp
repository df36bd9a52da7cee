#include "model/bench/torch_layers.h"

#include <ATen/Context.h>

namespace vggt {

TorchLinear::TorchLinear(Binder& bind, const std::string& name, int64_t in, int64_t out)
    : weight(bind.operand(name + ".weight", {out, in})), bias(bind.operand(name + ".bias", {out})) {}

at::Tensor TorchLinear::operator()(const at::Tensor& x) const {
  return at::linear(x.to(weight.scalar_type()), weight, bias);
}

TorchMlp::TorchMlp(Binder& bind, const std::string& name, int64_t in, int64_t hidden, int64_t out)
    : fc1(bind, name + ".fc1", in, hidden), fc2(bind, name + ".fc2", hidden, out) {}

at::Tensor TorchMlp::operator()(const at::Tensor& x) const {
  return fc2(at::gelu(fc1(x)));
}

TorchNorm::TorchNorm(Binder& bind, const std::string& name, int64_t channels, double eps)
    : weight(bind.state(name + ".weight", {channels})),
      bias(bind.state(name + ".bias", {channels})),
      eps(eps) {}

at::Tensor TorchNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x.to(weight.scalar_type()), weight.sizes(), weight, bias, eps);
}

TorchConv::TorchConv(Binder& bind, const std::string& name, const Spec& spec)
    : spec(spec),
      weight(
          bind.operand(name + ".weight", {spec.transposed ? spec.in : spec.out,
                                          spec.transposed ? spec.out : spec.in, spec.kernel, spec.kernel})),
      bias(spec.has_bias ? bind.operand(name + ".bias", {spec.out}) : at::Tensor()),
      tf32(bind.kind().tf32_convolutions) {}

at::Tensor TorchConv::operator()(const at::Tensor& x) const {
  const at::Context& process = at::globalContext();
  return at::_convolution(x.to(weight.scalar_type()), weight, bias, {spec.stride, spec.stride},
                          {spec.padding, spec.padding}, /*dilation=*/{1, 1}, spec.transposed,
                          /*output_padding=*/{0, 0}, /*groups=*/1, process.benchmarkCuDNN(),
                          process.deterministicCuDNN(), process.userEnabledCuDNN(), tf32);
}

}  // namespace vggt
