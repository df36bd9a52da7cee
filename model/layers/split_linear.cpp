#include "model/layers/split_linear.h"

#include <algorithm>
#include <vector>

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "attention/cuda/cuda_check.h"
#include "model/layers/alignment.h"
#include "model/layers/joined_rows.h"
#include "model/layers/split_gemm.h"
#include "model/layers/split_layout.h"
#include "model/layers/work_sizes.h"
#endif

namespace vggt {

bool split_pays(const LinearLayer& layer) {
  // Below these sizes there are too few tiles for the chip, and cuBLAS' own products are as exact.
  constexpr int64_t kFewestColumns = 256, kMostColumns = 4096;
  return layer.fp32 && !layer.tf32 && !layer.few_rows && layer.aligned && layer.wgmma &&
         layer.in >= kFewestColumns && layer.in <= kMostColumns && layer.in % 8 == 0 &&
         layer.out >= kFewestColumns && layer.out % 8 == 0;
}

SplitWeight rows_of(const SplitWeight& weight, int64_t first, int64_t count) {
  TORCH_CHECK(first % 2 == 0 && first >= 0 && count >= 0 && first + count <= weight.out, "linear: rows ",
              first, " to ", first + count, " of a weight of ", weight.out, " rows cannot be had alone");
  SplitWeight rows = weight;
  rows.first += first;
  rows.out = count;
  return rows;
}

#ifdef VGGT_CUDA
namespace {

constexpr int64_t kPieceRows = 256;  // pieces are of a multiple of these, but for the last one

constexpr CudaCheck check{"linear"};

SplitMatrix matrix_of(const SplitWeight& weight) {
  const int in = static_cast<int>(weight.in);
  SplitMatrix matrix = split_matrix(static_cast<int>(weight.stored), in, weight.memory.mutable_data_ptr());
  matrix.parts = static_cast<char*>(matrix.parts) + weight.first * split_width(in) * 2;  // of fp16
  matrix.exponents += weight.first;
  matrix.rows = static_cast<int>(weight.out);
  return matrix;
}

FloatRows float_rows(const at::Tensor& rows, int64_t first, bool gelu) {
  return {rows.const_data_ptr<float>() + first * rows.stride(0), rows.stride(0), gelu};
}

/// A product of rows [M,in] into y, but for the rows.
SplitGemm gemm_into(at::Tensor& y, int64_t M, int64_t in, const SplitWeight& weight, const at::Tensor& bias) {
  TORCH_CHECK(in == weight.in, "linear: expected ", weight.in, " columns, got ", in);
  TORCH_CHECK(y.is_contiguous() && y.numel() == M * weight.out, "linear: expected room for [", M, ",",
              weight.out, "], contiguous, got ", y.sizes());
  SplitGemm gemm;
  gemm.weight = matrix_of(weight);
  gemm.bias = bias.const_data_ptr<float>();
  gemm.out = y.mutable_data_ptr<float>();
  return gemm;
}

/// from: what gemm.x was made of, or nothing.
template <class Rows>
void multiply(const SplitGemm& gemm, const Rows& from) {
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  check(launch_split_gemm_sm90(gemm, gemm.x.rows > kGemmTile ? 2 : 1, stream), "split products");
  check(repair_rows(from, gemm, stream), "rows that are not finite");
}

/// A product of M rows into y, in pieces: rows_from(first) are those from there on.
template <class RowsFrom>
void multiply_pieces(at::Tensor& y, int64_t M, int64_t in, const SplitWeight& weight, const at::Tensor& bias,
                     const RowsFrom& rows_from) {
  SplitGemm gemm = gemm_into(y, M, in, weight, bias);
  const int64_t whole = kSplitPieceBytes / (split_width(in) * 2) / kPieceRows * kPieceRows;
  const int64_t piece = std::min(M, std::max(kPieceRows, whole));
  SplitRows room = room_for_split(piece, in, y);
  for (int64_t first = 0; first < M; first += piece) {
    room.rows = std::min(piece, M - first);
    gemm.x = matrix_of(room);
    const auto from = rows_from(first);
    check(split_rows(from, gemm.x, c10::cuda::getCurrentCUDAStream().stream()), "splitting rows");
    multiply(gemm, from);
    gemm.out += room.rows * weight.out;
  }
}

/// x [...,in] as rows [M,in] that split_rows() takes, without a copy where it can be.
at::Tensor as_rows(const at::Tensor& x) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const bool fit = rows.stride(1) == 1 && rows.stride(0) % 4 == 0 && is_aligned(rows);
  return fit ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

SplitMatrix matrix_of(const SplitRows& x) {
  return split_matrix(static_cast<int>(x.rows), static_cast<int>(x.columns), x.memory.mutable_data_ptr());
}

SplitWeight split_weight(const at::Tensor& weight, bool known_finite) {
  const c10::cuda::CUDAGuard guard(weight.device());
  const at::Tensor rows = as_rows(weight);
  const int64_t out = rows.size(0), in = rows.size(1);
  SplitWeight split{room_for_split(out, in, weight).memory, known_finite, in, out, 0, out};
  const SplitMatrix matrix = matrix_of(split);
  check(split_rows({rows.const_data_ptr<float>(), rows.stride(0)}, matrix,
                   c10::cuda::getCurrentCUDAStream().stream()),
        "splitting a weight");
  if (known_finite) return split;
  const at::Tensor exponents = at::from_blob(matrix.exponents, {out}, weight.options().dtype(at::kInt));
  split.finite = exponents.max().item<int>() < kNotFinite;
  return split;
}

SplitRows room_for_split(int64_t rows, int64_t columns, const at::Tensor& like) {
  return {at::empty({split_matrix_bytes(rows, columns)}, like.options().dtype(at::kByte)), rows, columns};
}

void split_rows_into(SplitRows& room, const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor rows = as_rows(x);
  TORCH_CHECK(rows.size(0) <= room.rows && rows.size(1) == room.columns, "linear: no room for ", x.sizes());
  room.rows = rows.size(0);
  check(split_rows(float_rows(rows, 0, false), matrix_of(room), c10::cuda::getCurrentCUDAStream().stream()),
        "splitting rows");
}

void linear_split_out(at::Tensor& y, const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias,
                      bool gelu) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor rows = as_rows(x);  // [M,in]
  multiply_pieces(y, rows.size(0), rows.size(1), weight, bias,
                  [&](int64_t first) { return float_rows(rows, first, gelu); });
}

void linear_split_out(at::Tensor& y, const JoinedRows& x, const SplitWeight& weight, const at::Tensor& bias) {
  const c10::cuda::CUDAGuard guard(y.device());
  multiply_pieces(y, x.rows, x.begins[x.parts], weight, bias, [&](int64_t first) {
    JoinedRows rows = x;
    rows.rows -= static_cast<int>(first);
    for (int part = 0; part < x.parts; ++part)
      rows.data[part] =
          static_cast<const float*>(x.data[part]) + first * (x.begins[part + 1] - x.begins[part]);
    return rows;
  });
}

void linear_split_out(at::Tensor& y, const SplitRows& x, const SplitWeight& weight, const at::Tensor& bias) {
  const c10::cuda::CUDAGuard guard(x.memory.device());
  SplitGemm gemm = gemm_into(y, x.rows, x.columns, weight, bias);
  gemm.x = matrix_of(x);
  if (x.rows > 0) multiply(gemm, FloatRows());
}

at::Tensor linear_split(const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias, bool gelu) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.out;
  at::Tensor y = at::empty(shape, x.options());
  linear_split_out(y, x, weight, bias, gelu);
  return y;
}
#else
SplitWeight split_weight(const at::Tensor&, bool) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
void linear_split_out(at::Tensor&, const at::Tensor&, const SplitWeight&, const at::Tensor&, bool) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
void linear_split_out(at::Tensor&, const SplitRows&, const SplitWeight&, const at::Tensor&) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
SplitRows room_for_split(int64_t, int64_t, const at::Tensor&) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
void split_rows_into(SplitRows&, const at::Tensor&) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
at::Tensor linear_split(const at::Tensor&, const SplitWeight&, const at::Tensor&, bool) {
  TORCH_CHECK(false, "linear: this build has no CUDA");
}
#endif

}  // namespace vggt
