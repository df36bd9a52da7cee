#include "model/layers/row_values.cuh"
#include "model/layers/segment_mean_params.h"

namespace vggt {
namespace {

constexpr int kWarps = 8;  // of a block
// Rows that a warp loads before it adds the first: most segments are shorter, and what hides the rest is more
// warps, so that registers are few.
constexpr int kInFlight = 4;
// A segment of more members would outlast all others in one warp: in a second pass each lane has one column.
constexpr int64_t kLong = 128;
constexpr int kInFlightLong = 32;
constexpr int kSegmentsOfBlock = 16;  // that a block of the second pass looks at

/// sum += the members' rows, in their order. values: this lane's first column, of kCount. All lanes must
/// enter.
template <int kRows, typename Value, int kCount>
__device__ __forceinline__ void add_members(const Value* values, int64_t columns, const int64_t* members,
                                            int count, float (&sum)[kCount]) {
  using Columns = Values<Value, kCount>;
  const int lane = threadIdx.x % 32;
  int next = lane < count ? static_cast<int>(members[lane]) : 0;
  for (int first = 0; first < count; first += 32) {
    const int member = next, some = min(32, count - first);
    if (first + 32 + lane < count) next = static_cast<int>(members[first + 32 + lane]);
    for (int i = 0; i < some; i += kRows) {
      Columns row[kRows];
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        const int64_t from = __shfl_sync(kAllLanes, member, i + n);
        row[n] = Columns{};  // adding zeros takes less time than branches
        if (i + n < some) row[n] = *reinterpret_cast<const Columns*>(values + from * columns);
      }
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
#pragma unroll
        for (int c = 0; c < kCount; ++c) sum[c] += static_cast<float>(row[n].at[c]);
      }
    }
  }
}

/// A warp has 512 bytes of the columns of one segment.
template <typename Value>
__global__ void __launch_bounds__(32 * kWarps, 6) short_means_kernel(const SegmentMean p) {
  constexpr int kWidth = 16 / sizeof(Value);
  using Vector = Values<Value, kWidth>;
  const int64_t segment = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (segment >= p.rows) return;
  const int64_t begin = p.offsets[segment], count = p.offsets[segment + 1] - begin;
  if (count > kLong) return;
  const int64_t column = (int64_t{blockIdx.y} * 32 + threadIdx.x % 32) * kWidth;
  const bool has_columns = column < p.columns;
  const Value* values = static_cast<const Value*>(p.values) + (has_columns ? column : 0);
  Value* out = static_cast<Value*>(p.out) + segment * p.out_stride + column;
  if (count == 1) {
    const Vector copy = *reinterpret_cast<const Vector*>(values + p.members[begin] * p.columns);
    if (has_columns) *reinterpret_cast<Vector*>(out) = copy;
    return;
  }
  float sum[kWidth] = {};
  add_members<kInFlight>(values, p.columns, p.members + begin, static_cast<int>(count), sum);
  const auto divisor = static_cast<float>(max(static_cast<int>(count), 1));
#pragma unroll
  for (int c = 0; c < kWidth; ++c) sum[c] /= divisor;
  if (has_columns) store_values(sum, out);
}

/// A block has 256 columns of kSegmentsOfBlock segments.
template <typename Value>
__global__ void __launch_bounds__(32 * kWarps) long_means_kernel(const SegmentMean p) {
  const int64_t first = int64_t{blockIdx.x} * kSegmentsOfBlock;
  const auto members_of = [&](int64_t segment) { return p.offsets[segment + 1] - p.offsets[segment]; };
  const bool is_long = threadIdx.x < kSegmentsOfBlock && first + threadIdx.x < p.rows &&
                       members_of(first + threadIdx.x) > kLong;
  if (!__syncthreads_or(is_long)) return;
  const int64_t column = int64_t{blockIdx.y} * 32 * kWarps + threadIdx.x;
  const bool has_column = column < p.columns;
  const Value* values = static_cast<const Value*>(p.values) + (has_column ? column : 0);
  Value* out = static_cast<Value*>(p.out) + column;
  for (int64_t segment = first; segment < min(first + kSegmentsOfBlock, p.rows); ++segment) {
    const auto count = static_cast<int>(members_of(segment));
    if (count <= kLong) continue;
    float sum[1] = {};
    add_members<kInFlightLong>(values, p.columns, p.members + p.offsets[segment], count, sum);
    if (has_column) out[segment * p.out_stride] = static_cast<Value>(sum[0] / static_cast<float>(count));
  }
}

dim3 blocks(int64_t segments, int64_t of_block, int64_t columns, int64_t columns_of_block) {
  return {static_cast<unsigned>((segments + of_block - 1) / of_block),
          static_cast<unsigned>((columns + columns_of_block - 1) / columns_of_block)};
}

template <typename Value>
void launch(const SegmentMean& means, cudaStream_t stream) {
  if (means.rows == 0 || means.columns == 0) return;
  constexpr int kThreads = 32 * kWarps, kColumns = 512 / sizeof(Value);
  short_means_kernel<Value>
      <<<blocks(means.rows, kWarps, means.columns, kColumns), kThreads, 0, stream>>>(means);
  check_launch("means of short segments");
  long_means_kernel<Value>
      <<<blocks(means.rows, kSegmentsOfBlock, means.columns, kThreads), kThreads, 0, stream>>>(means);
  check_launch("means of long segments");
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
