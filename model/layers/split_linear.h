#pragma once
#include <ATen/ATen.h>

namespace vggt {

struct JoinedRows;
struct SplitMatrix;

/// What decides how a linear layer is computed.
struct LinearLayer {
  int64_t in = 0, out = 0;
  bool fp32 = false, tf32 = false;  // the type of all operands; whether its products may be TF32
  bool few_rows = false;            // it will see a few hundred rows at most
  bool aligned = false;             // the bias to 8 bytes
  bool wgmma = false;               // the GPU has Hopper's tensor cores, and this build code for them
};

/// Whether fp32 split into fp16 can compute this layer, and is the faster way to.
bool split_pays(const LinearLayer& layer);

/// A weight in the form that split products take, in as much memory.
struct SplitWeight {
  at::Tensor memory;    // bytes
  bool finite = false;  // or it cannot be split
  int64_t in = 0, out = 0;
  int64_t first = 0, stored = 0;  // it is rows [first, first + out) of the rows in memory
};
/// weight [out,in], fp32 on a GPU. Waits for the GPU, unless the weight is known to be finite.
SplitWeight split_weight(const at::Tensor& weight, bool known_finite = false);
/// So many rows of a weight, of the same memory: first even.
SplitWeight rows_of(const SplitWeight& weight, int64_t first, int64_t count);

/// Rows of fp32 numbers in the form that split products take, in as much memory.
struct SplitRows {
  at::Tensor memory;  // bytes; undefined where there are none
  int64_t rows = 0, columns = 0;
};
/// Its matrix, for kernels.
SplitMatrix matrix_of(const SplitRows& x);
SplitRows room_for_split(int64_t rows, int64_t columns, const at::Tensor& like);  // on its device
/// x [M,in], fp32 on a GPU, into the room's first rows.
void split_rows_into(SplitRows& room, const at::Tensor& x);

/// x·weightᵀ + bias on a GPU by split products, or of GELU(x): x [...,in] fp32, bias [out] -> [...,out].
/// The weight is finite. Sizes need not pass split_pays(); the other conditions must.
at::Tensor linear_split(const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias,
                        bool gelu = false);

/// The same into y, contiguous, of as many rows as x.
void linear_split_out(at::Tensor& y, const at::Tensor& x, const SplitWeight& weight, const at::Tensor& bias,
                      bool gelu = false);
/// The same of fp32 rows that lie in several matrices.
void linear_split_out(at::Tensor& y, const JoinedRows& x, const SplitWeight& weight, const at::Tensor& bias);
/// The same of parts. Rows that are not finite give NaN.
void linear_split_out(at::Tensor& y, const SplitRows& x, const SplitWeight& weight, const at::Tensor& bias);

}  // namespace vggt
