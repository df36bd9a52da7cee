#include "model/layers/conv.h"

#include <ATen/Context.h>

#include <algorithm>

#include "model/layers/map_passes.h"
#include "model/layers/split_conv.h"
#include "model/layers/winograd.h"
#include "model/layers/work_sizes.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#endif

namespace vggt {
namespace {

/// at::conv2d or at::conv_transpose2d, with their other settings of the process, but for TF32.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                       int64_t padding, bool transposed, bool tf32) {
  const at::Context& process = at::globalContext();
  return at::_convolution(x, weight, bias, {stride, stride}, {padding, padding}, /*dilation=*/{1, 1},
                          transposed, /*output_padding=*/{0, 0}, /*groups=*/1, process.benchmarkCuDNN(),
                          process.deterministicCuDNN() || process.deterministicAlgorithms(),
                          process.userEnabledCuDNN(), tf32);
}

/// So many columns and zeros, as split products take them.
int64_t padded_columns(int64_t columns) {
  constexpr int64_t kUnit = 8;
  return (columns + kUnit - 1) / kUnit * kUnit;
}

/// A layer of these on a GPU, if it multiplies parts.
std::optional<Linear> split_product(const at::Tensor& weight, const at::Tensor& bias, bool tf32) {
  const Linear layer(weight, bias, {weight.scalar_type(), bias.scalar_type(), tf32});
  return layer.splits() ? std::optional(layer) : std::nullopt;
}

}  // namespace

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                    int64_t padding, bool tf32) {
  return convolution(x, weight, bias, stride, padding, /*transposed=*/false, tf32);
}

at::Tensor convolve_as_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               int64_t stride, int64_t padding, int64_t piece_bytes) {
  const int64_t out = weight.size(0), k = weight.size(2);
  const at::Tensor matrix = weight.permute({0, 2, 3, 1}).flatten(1).t();  // [k·k·C,out]
  const at::Tensor padded =
      at::constant_pad_nd(x.permute({0, 2, 3, 1}), {0, 0, padding, padding, padding, padding});
  const at::Tensor windows = padded.unfold(1, k, stride).unfold(2, k, stride);  // [F,H',W',C,k,k]
  const int64_t F = windows.size(0), rows = windows.size(1), columns = windows.size(2);
  const int64_t row_bytes = columns * matrix.size(0) * static_cast<int64_t>(x.element_size());
  const int64_t most = std::clamp<int64_t>(piece_bytes / row_bytes, 1, rows);
  at::Tensor y = at::empty({F, rows, columns, out}, x.options());
  for (int64_t frame = 0; frame < F; ++frame) {
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      const at::Tensor unfolded = windows[frame]
                                      .narrow(0, first, count)
                                      .permute({0, 1, 3, 4, 2})
                                      .reshape({count * columns, -1});                  // [count·W',k·k·C]
      at::Tensor part = y[frame].narrow(0, first, count).view({count * columns, out});  // of y
      if (bias.defined()) {
        at::addmm_out(part, bias, unfolded, matrix);
      } else {
        at::mm_out(part, unfolded, matrix);
      }
    }
  }
  return y.permute({0, 3, 1, 2});
}

Conv2d::Conv2d(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride,
               int64_t padding, bool has_bias)
    : weight(bind.operand(name + ".weight", {out, in, kernel, kernel})),
      bias(has_bias ? bind.state(name + ".bias", {out}) : at::Tensor()),
      kernel(kernel),
      stride(stride),
      padding(padding),
      tf32(bind.kind().tf32_convolutions) {
  if (!weight.defined()) return;
  weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  split();
}

void Conv2d::split() {
#ifdef VGGT_CUDA
  if (!weight.is_cuda()) return;
  const bool fp32 = weight.scalar_type() == at::kFloat;
  if (fp32 && kernel == 1 && stride == 1 && padding == 0) {
    product = split_product(weight.flatten(1),
                            bias.defined() ? bias : at::zeros({weight.size(0)}, weight.options()), tf32);
    if (product) weight = at::Tensor();
    return;
  }
  if (!split_conv_pays(
          {weight.size(1), weight.size(0), kernel, stride, fp32, tf32, cuda_device(weight.device()).wgmma}))
    return;
  const SplitWeight made = split_conv_weight(weight);
  if (!made.finite) return;
  parts = made;
  weight = at::Tensor();
#endif
}

at::Tensor Conv2d::operator()(const at::Tensor& x) const {
  auto [map, rest] = before_bias(x);
  if (rest.defined()) add_to_map_(map, {.bias = rest});
  return map;
}

Conv2d::Unbiased Conv2d::before_bias(const at::Tensor& x) const {
  // On a GPU LibTorch adds a bias in a pass of its own.
  if (!x.is_cuda()) return {with(x, bias.defined() ? bias.to(x.scalar_type()) : bias), {}};
  if (product) return {(*product)(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}), {}};
  if (parts.memory.defined()) return {convolve_split(x, parts, kernel, padding, kConvPieceBytes), bias};
  return {with(x, {}), bias};
}

at::Tensor Conv2d::with(const at::Tensor& x, const at::Tensor& bias) const {
  if (winograd_pays(x, weight, stride, padding)) return convolve_winograd(x, weight, bias);
  // cuDNN without TF32 may choose an FFT with 33 GiB of workspace, six times as slow (an H200, 8 maps of
  // 256×100×148).
  const bool is_exact = x.is_cuda() && x.scalar_type() == at::kFloat && kernel > 1 && !tf32;
  if (!is_exact) return convolve(x, weight, bias, stride, padding, tf32);
  check_tf32_setting(x, false);
  return convolve_as_product(x, weight, bias, stride, padding, kConvPieceBytes);
}

ConvTranspose2d::ConvTranspose2d(Binder& bind, const std::string& name, int64_t channels, int64_t scale)
    : weight(bind.operand(name + ".weight", {channels, channels, scale, scale})),
      bias(bind.state(name + ".bias", {channels})),
      scale(scale),
      tf32(bind.kind().tf32_convolutions) {
  if (!weight.defined() || !weight.is_cuda()) return;
  product = split_product(weight.permute({2, 3, 1, 0}).flatten(0, 2), bias.repeat(scale * scale), tf32);
  if (product) weight = at::Tensor();
}

at::Tensor ConvTranspose2d::operator()(const at::Tensor& x) const {
  if (product) {
    const int64_t F = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const at::Tensor windows = (*product)(x.permute({0, 2, 3, 1}));  // [F,H,W,scale·scale·C]
    return windows.view({F, H, W, scale, scale, C})
        .transpose(2, 3)
        .reshape({F, H * scale, W * scale, C})
        .permute({0, 3, 1, 2});
  }
  const bool fused = !x.is_cuda();  // LibTorch adds the bias in a pass of its own
  const at::Tensor within = fused ? bias.to(x.scalar_type()) : at::Tensor();
  at::Tensor y = convolution(x, weight, within, scale, 0, /*transposed=*/true, tf32);
  if (!fused) add_to_map_(y, {.bias = bias});
  return y;
}

PatchConv::PatchConv(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t size)
    : weight(bind.operand(name + ".weight", {out, in, size, size})),
      bias(bind.operand(name + ".bias", {out})),
      size(size),
      tf32(bind.kind().tf32_convolutions) {
  if (!weight.defined() || !weight.is_cuda()) return;
  const at::Tensor rows = weight.flatten(1);  // [out,in·size·size]
  const int64_t zeros = padded_columns(rows.size(1)) - rows.size(1);
  product = split_product(at::constant_pad_nd(rows, {0, zeros}), bias, tf32);
  if (product) weight = at::Tensor();
}

at::Tensor PatchConv::operator()(const at::Tensor& x) const {
  if (!product) return convolve(x, weight, bias, size, 0, tf32).flatten(2).transpose(1, 2);
  const at::Tensor patches = x.unfold(2, size, size).unfold(3, size, size);  // [F,in,h,w,size,size]
  const int64_t F = x.size(0), h = patches.size(2), w = patches.size(3), columns = x.size(1) * size * size;
  const at::Tensor rows = at::zeros({F, h, w, padded_columns(columns)}, x.options());
  rows.narrow(3, 0, columns).unflatten(3, {x.size(1), size, size}).copy_(patches.permute({0, 2, 3, 1, 4, 5}));
  return (*product)(rows).flatten(1, 2);
}

}  // namespace vggt
