#include "model/layers/split_conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"
#endif

namespace vggt {

#ifdef VGGT_CUDA
namespace {

void check(cudaError_t error, const char* what) {
  TORCH_CHECK(error == cudaSuccess, "convolution: ", what, ": ", cudaGetErrorString(error));
}

/// The exponents of maps [F,...], on the host: see row_exponent().
std::vector<int> exponents_of(const at::Tensor& x) {
  const at::Tensor largest = at::linalg_vector_norm(x.flatten(1), INFINITY, {1}).cpu();  // [F]
  std::vector<int> exponents;
  for (int64_t i = 0; i < largest.numel(); ++i) {
    const float value = largest.const_data_ptr<float>()[i];
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    exponents.push_back(row_exponent(bits & 0x7FFFFFFFU));
  }
  return exponents;
}

at::Tensor memory_for(int64_t rows, int64_t columns, const at::Tensor& like) {
  return at::empty({split_matrix_bytes(rows, columns)}, like.options().dtype(at::kByte));
}

/// What of the maps is computed at one time: rows of one frame, or whole frames.
struct Piece {
  int64_t first_frame, frames, first_row, rows;
};

std::vector<Piece> pieces_of(int64_t frames, int64_t rows, int64_t most_rows) {
  std::vector<Piece> pieces;
  if (most_rows >= rows) {
    const int64_t at_once = most_rows / rows;
    for (int64_t f = 0; f < frames; f += at_once)
      pieces.push_back({f, std::min(at_once, frames - f), 0, rows});
    return pieces;
  }
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t y = 0; y < rows; y += most_rows) pieces.push_back({f, 1, y, std::min(most_rows, rows - y)});
  }
  return pieces;
}

}  // namespace

SplitWeight split_conv_weight(const at::Tensor& weight) {
  const c10::cuda::CUDAGuard guard(weight.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor rows = weight.permute({0, 2, 3, 1}).flatten(1).contiguous();  // [out,k·k·in]
  const int64_t out = rows.size(0), columns = rows.size(1);
  SplitWeight split{memory_for(out, columns, weight), true, columns, out, 0, out};
  const std::vector<int> exponents = exponents_of(rows);
  split.finite = std::ranges::find(exponents, kNotFinite) == exponents.end();
  if (!split.finite) return split;
  const at::Tensor on_device = at::tensor(exponents, at::kInt).to(weight.device());
  const SplitMatrix matrix =
      split_matrix(static_cast<int>(out), static_cast<int>(columns), split.memory.mutable_data_ptr());
  const FloatMap map{rows.const_data_ptr<float>(),   1, 1, 0, 0, static_cast<int>(out), 1, 1,
                     on_device.const_data_ptr<int>()};
  check(split_map(map, matrix, stream), "splitting a weight");
  return split;
}

at::Tensor conv_weight_of(const SplitWeight& parts, int64_t kernel) {
  const SplitMatrix matrix =
      split_matrix(static_cast<int>(parts.out), static_cast<int>(parts.in), parts.memory.mutable_data_ptr());
  const at::Tensor halves =
      at::from_blob(matrix.parts, {parts.out, parts.in / kSplitColumns, 2, kSplitColumns},
                    parts.memory.options().dtype(at::kHalf));  // high, low
  const at::Tensor exponents =
      at::from_blob(matrix.exponents, {parts.out, 1, 1}, parts.memory.options().dtype(at::kInt));
  const at::Tensor values = at::ldexp(halves.to(at::kFloat).sum(2), -exponents);  // [out,k·k·in/32,32]
  return values.view({parts.out, kernel, kernel, -1}).permute({0, 3, 1, 2});
}

at::Tensor convolve_split(const at::Tensor& x, const SplitWeight& weight, int64_t kernel, int64_t padding,
                          int64_t piece_bytes) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor maps = x.permute({0, 2, 3, 1}).contiguous();  // [F,H,W,in]
  const int64_t F = maps.size(0), H = maps.size(1), W = maps.size(2), in = maps.size(3), out = weight.out;
  TORCH_CHECK(in * kernel * kernel == weight.in, "convolution: expected ", weight.in / kernel / kernel,
              " channels, got ", in);
  const std::vector<int> exponents = exponents_of(maps);
  if (std::ranges::find(exponents, kNotFinite) != exponents.end()) return {};
  const at::Tensor on_device = at::tensor(exponents, at::kInt).to(x.device());
  const int64_t columns = W + 2 * padding, rows = H + 2 * padding - kernel + 1;  // padded ones, of the output
  const int64_t row_bytes = columns * std::max(in, out) * static_cast<int64_t>(sizeof(float));
  const int64_t most_rows = std::max<int64_t>(1, piece_bytes / 2 / row_bytes - kernel + 1);
  at::Tensor y = at::empty({F, rows, columns - kernel + 1, out}, maps.options());
  SplitGemm gemm;
  gemm.weight =
      split_matrix(static_cast<int>(out), static_cast<int>(weight.in), weight.memory.mutable_data_ptr());
  const at::Tensor no_bias = at::zeros({out}, maps.options());
  gemm.bias = no_bias.const_data_ptr<float>();
  gemm.taps = static_cast<int>(kernel);
  gemm.tap_row = static_cast<int>(columns);
  for (const Piece& piece : pieces_of(F, rows, most_rows)) {
    const int64_t tall = piece.rows + kernel - 1, pixels = piece.frames * tall * columns;
    const at::Tensor memory = memory_for(pixels, in, x), product = at::empty({pixels, out}, maps.options());
    const FloatMap map{maps.const_data_ptr<float>() + piece.first_frame * H * W * in,
                       static_cast<int>(H),
                       static_cast<int>(W),
                       static_cast<int>(piece.first_row - padding),
                       static_cast<int>(-padding),
                       static_cast<int>(piece.frames),
                       static_cast<int>(tall),
                       static_cast<int>(columns),
                       on_device.const_data_ptr<int>() + piece.first_frame};
    gemm.x = split_matrix(static_cast<int>(pixels), static_cast<int>(in), memory.mutable_data_ptr());
    gemm.out = product.mutable_data_ptr<float>();
    check(split_map(map, gemm.x, stream), "splitting a map");
    check(launch_split_gemm_sm90(gemm, gemm.x.rows > kGemmTile ? 2 : 1, stream), "split products");
    y.narrow(0, piece.first_frame, piece.frames)
        .narrow(1, piece.first_row, piece.rows)
        .copy_(product.view({piece.frames, tall, columns, out})
                   .narrow(1, 0, piece.rows)
                   .narrow(2, 0, columns - kernel + 1));
  }
  return y.permute({0, 3, 1, 2});
}
#else
SplitWeight split_conv_weight(const at::Tensor&) {
  TORCH_CHECK(false, "convolution: this build has no CUDA");
}
at::Tensor conv_weight_of(const SplitWeight&, int64_t) {
  TORCH_CHECK(false, "convolution: this build has no CUDA");
}
at::Tensor convolve_split(const at::Tensor&, const SplitWeight&, int64_t, int64_t, int64_t) {
  TORCH_CHECK(false, "convolution: this build has no CUDA");
}
#endif

}  // namespace vggt
