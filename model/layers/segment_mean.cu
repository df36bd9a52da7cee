#include "model/layers/row_values.cuh"
#include "model/layers/segment_mean_params.h"

namespace vggt {
namespace {

// Rows that a warp loads before it adds the first: most segments are shorter, and few registers leave room
// for more warps. All warps of a block share a segment of more than kLong, which alone would outlast the
// others.
constexpr int kInFlight = 2, kInFlightLong = 16;
constexpr int64_t kLong = 64;

/// sum += the members' rows, in their order; each lane has kCount columns, of which `values` points to the
/// first. All lanes must enter.
template <int kRows, typename Value, int kCount>
__device__ __forceinline__ void add_members(const Value* values, int64_t columns, bool has_columns,
                                            const int64_t* members, int64_t count, float (&sum)[kCount]) {
  const int lane = threadIdx.x % 32;
  int next = lane < count ? static_cast<int>(members[lane]) : 0;
#pragma unroll 1
  for (int64_t first = 0; first < count; first += 32) {
    const int member = next, some = static_cast<int>(min(int64_t{32}, count - first));
    if (first + 32 + lane < count) next = static_cast<int>(members[first + 32 + lane]);
#pragma unroll 1
    for (int i = 0; i < some; i += kRows) {
      Values<Value, kCount> row[kRows];
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        const int64_t from = __shfl_sync(kAllLanes, member, i + n);
        if (has_columns && i + n < some)
          row[n] = *reinterpret_cast<const Values<Value, kCount>*>(values + from * columns);
      }
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        if (i + n >= some) break;
#pragma unroll
        for (int c = 0; c < kCount; ++c) sum[c] += static_cast<float>(row[n].at[c]);
      }
    }
  }
}

/// A block takes 512 bytes of the columns, of as many segments as a lane's 16 bytes hold numbers: a warp a
/// segment, or, of a long one, each warp 32 columns.
template <typename Value>
__global__ void __launch_bounds__(512 / sizeof(Value), 1536 * sizeof(Value) / 512)
    segment_mean_kernel(const SegmentMean p) {
  constexpr int kWidth = 16 / sizeof(Value);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first_row = int64_t{blockIdx.x} * kWidth, first_column = int64_t{blockIdx.y} * 32 * kWidth;
  const Value* values = static_cast<const Value*>(p.values);
  Value* out = static_cast<Value*>(p.out);

  const int64_t row = first_row + warp;
  const bool exists = row < p.rows;
  const int64_t begin = exists ? p.offsets[row] : 0, count = exists ? p.offsets[row + 1] - begin : 0;
  const bool some_long = __syncthreads_or(count > kLong);
  if (exists && count <= kLong) {
    const int64_t column = first_column + lane * kWidth;
    const bool has_columns = column < p.columns;
    Value* to = out + row * p.out_stride + column;
    using Vector = Values<Value, kWidth>;
    if (count == 1) {
      if (has_columns)
        *reinterpret_cast<Vector*>(to) =
            *reinterpret_cast<const Vector*>(values + p.members[begin] * p.columns + column);
    } else {
      float sum[kWidth] = {};
      add_members<kInFlight>(values + column, p.columns, has_columns, p.members + begin, count, sum);
      const auto divisor = static_cast<float>(max(count, int64_t{1}));
#pragma unroll
      for (int c = 0; c < kWidth; ++c) sum[c] /= divisor;
      if (has_columns) store_values(sum, to);
    }
  }
  if (!some_long) return;
  const int64_t column = first_column + threadIdx.x;
  for (int64_t r = first_row; r < min(first_row + kWidth, p.rows); ++r) {
    const int64_t start = p.offsets[r], members = p.offsets[r + 1] - start;
    if (members <= kLong) continue;
    float sum[1] = {};
    add_members<kInFlightLong>(values + column, p.columns, column < p.columns, p.members + start, members,
                               sum);
    if (column < p.columns)
      out[r * p.out_stride + column] = static_cast<Value>(sum[0] / static_cast<float>(members));
  }
}

template <typename Value>
void launch(const SegmentMean& means, cudaStream_t stream) {
  constexpr int kWidth = 16 / sizeof(Value), kColumns = 32 * kWidth;
  if (means.rows == 0 || means.columns == 0) return;
  const dim3 blocks(static_cast<unsigned>((means.rows + kWidth - 1) / kWidth),
                    static_cast<unsigned>((means.columns + kColumns - 1) / kColumns));
  segment_mean_kernel<Value><<<blocks, kColumns, 0, stream>>>(means);
  check_launch("segment mean");
}

}  // namespace

void segment_mean_cuda(OperandType type, const SegmentMean& means, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case OperandType::fp32:
      return launch<float>(means, cuda_stream);
    case OperandType::bf16:
      return launch<__nv_bfloat16>(means, cuda_stream);
    case OperandType::fp16:
      return launch<__half>(means, cuda_stream);
  }
}

}  // namespace vggt
