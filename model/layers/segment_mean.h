#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Row r of out [M,K] = the mean of rows members[offsets[r]], ..., members[offsets[r + 1] - 1] of values
/// [N,K], zeros where there are none. values contiguous; out of its type, its rows anywhere, also on another
/// device; members [N'] and offsets [M+1] int64, contiguous, on the device of values. Sums run in the order
/// of the members, in fp32 on a GPU (fp64 of fp64): the same on every run. A GPU's kernel copies the row of a
/// single member bit for bit; what it does not take, LibTorch's embedding_bag computes.
void segment_mean_into(at::Tensor& out, const at::Tensor& values, const at::Tensor& members,
                       const at::Tensor& offsets);

}  // namespace vggt
