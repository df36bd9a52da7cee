#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace vggt {

// Fewer numbers to compare tokens by: sums of all channels with random signs keep angles, the better the
// smaller they are (Achlioptas, "Database-friendly random projections", 2003).

/// Signs [C,width] of -1 and 1, fp32 on the CPU: the same for a seed everywhere.
at::Tensor draw_signs(int64_t channels, int64_t width, uint64_t seed);

/// metric [n,C] and signs [C,width] of one type on one device -> their products [n,width], each row of unit
/// length.
at::Tensor narrow_metric(const at::Tensor& metric, const at::Tensor& signs);

}  // namespace vggt
