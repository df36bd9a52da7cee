#include "model/layers/split_conv.h"

#include <algorithm>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "attention/cuda/cuda_check.h"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"
#include "model/layers/split_linear.h"
#endif

namespace vggt {

#ifdef VGGT_CUDA
namespace {

constexpr CudaCheck check{"convolution"};

uint32_t* bits_of(const at::Tensor& x) {
  return reinterpret_cast<uint32_t*>(x.mutable_data_ptr<int>());
}

/// The largest finite numbers of maps [F,...], contiguous: see largest_of_maps().
at::Tensor largest_of(const at::Tensor& maps) {
  const at::Tensor largest = at::empty({maps.size(0)}, maps.options().dtype(at::kInt));
  check(largest_of_maps(maps.const_data_ptr<float>(), static_cast<int>(maps.size(0)), maps[0].numel(),
                        bits_of(largest), c10::cuda::getCurrentCUDAStream().stream()),
        "the largest number of a map");
  return largest;
}

/// What of the maps is computed at one time: rows of one frame, or whole frames.
struct Piece {
  int64_t first_frame, frames, first_row, rows;
};

/// Of maps whose frames have `around` rows more than their outputs: `most_rows` at a time.
std::vector<Piece> pieces_of(int64_t frames, int64_t rows, int64_t around, int64_t most_rows) {
  std::vector<Piece> pieces;
  const int64_t at_once = most_rows / (rows + around), part = std::max<int64_t>(1, most_rows - around);
  if (at_once > 0) {
    for (int64_t f = 0; f < frames; f += at_once)
      pieces.push_back({f, std::min(at_once, frames - f), 0, rows});
    return pieces;
  }
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t y = 0; y < rows; y += part) pieces.push_back({f, 1, y, std::min(part, rows - y)});
  }
  return pieces;
}

}  // namespace

SplitWeight split_conv_weight(const at::Tensor& weight) {
  const c10::cuda::CUDAGuard guard(weight.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor rows = weight.permute({0, 2, 3, 1}).flatten(1).contiguous();  // [out,k·k·in]
  const int64_t out = rows.size(0), columns = rows.size(1);
  SplitWeight split{
      room_for_split(out, columns, weight).memory, rows.isfinite().all().item<bool>(), columns, out, 0, out};
  const at::Tensor largest = largest_of(rows);
  const SplitMatrix matrix =
      split_matrix(static_cast<int>(out), static_cast<int>(columns), split.memory.mutable_data_ptr());
  const FloatMap map{rows.const_data_ptr<float>(), 1, 1, 0, 0, static_cast<int>(out), 1, 1, bits_of(largest)};
  check(split_map(map, matrix, stream), "splitting a weight");
  return split;
}

at::Tensor convolve_split(const at::Tensor& x, const SplitWeight& weight, int64_t kernel, int64_t padding,
                          int64_t piece_bytes) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor maps = x.permute({0, 2, 3, 1}).contiguous();  // [F,H,W,in]
  const int64_t F = maps.size(0), H = maps.size(1), W = maps.size(2), in = maps.size(3), out = weight.out;
  TORCH_CHECK(in * kernel * kernel == weight.in, "convolution: expected ", weight.in / kernel / kernel,
              " channels, got ", in);
  const at::Tensor largest = largest_of(maps);
  const int64_t columns = W + 2 * padding, rows = H + 2 * padding - kernel + 1;  // padded ones, of the output
  const int64_t row_bytes = columns * in * static_cast<int64_t>(sizeof(float));
  at::Tensor y = at::empty({F, rows, columns - kernel + 1, out}, maps.options());
  SplitGemm gemm;
  gemm.weight =
      split_matrix(static_cast<int>(out), static_cast<int>(weight.in), weight.memory.mutable_data_ptr());
  const at::Tensor no_bias = at::zeros({out}, maps.options());
  gemm.bias = no_bias.const_data_ptr<float>();
  gemm.taps = static_cast<int>(kernel);
  gemm.tap_row = static_cast<int>(columns);
  gemm.out_frame = y.stride(0) / out;
  for (const Piece& piece : pieces_of(F, rows, kernel - 1, piece_bytes / row_bytes)) {
    const int64_t tall = piece.rows + kernel - 1, pixels = piece.frames * tall * columns;
    const at::Tensor memory = room_for_split(pixels, in, x).memory;
    const FloatMap map{maps.const_data_ptr<float>() + piece.first_frame * H * W * in,
                       static_cast<int>(H),
                       static_cast<int>(W),
                       static_cast<int>(piece.first_row - padding),
                       static_cast<int>(-padding),
                       static_cast<int>(piece.frames),
                       static_cast<int>(tall),
                       static_cast<int>(columns),
                       bits_of(largest) + piece.first_frame};
    gemm.x = split_matrix(static_cast<int>(pixels), static_cast<int>(in), memory.mutable_data_ptr());
    gemm.tap_rows = static_cast<int>(tall);
    gemm.out = y.mutable_data_ptr<float>() + piece.first_frame * y.stride(0) + piece.first_row * y.stride(1);
    check(split_map(map, gemm.x, stream), "splitting a map");
    check(launch_split_gemm_sm90(gemm, gemm.x.rows > kGemmTile ? 2 : 1, stream), "split products");
  }
  return y.permute({0, 3, 1, 2});
}
#else
SplitWeight split_conv_weight(const at::Tensor&) {
  TORCH_CHECK(false, "convolution: this build has no CUDA");
}
at::Tensor convolve_split(const at::Tensor&, const SplitWeight&, int64_t, int64_t, int64_t) {
  TORCH_CHECK(false, "convolution: this build has no CUDA");
}
#endif

}  // namespace vggt
