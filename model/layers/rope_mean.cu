// Means of heads that are normalised and rotated on the way: what merged attention takes of q and k.
#include "model/layers/rope_lane.cuh"

namespace vggt {
namespace {

constexpr int kWarps = 8;  // of a block
constexpr int kLoads = 2;  // heads of which a lane holds its part
constexpr int kWidth = 4;  // numbers of such a part; with 8 of 2 bytes the registers leave room for few warps
constexpr int kBlocks = 3;  // of a multiprocessor
// All warps of a block share a row of more members, which alone would outlast the others.
constexpr int64_t kLong = 64;

/// What a lane has of kLoads heads, `first_head` and those kHeads further.
template <typename Value, int kLanes>
struct TurnedSum {
  using Lane = RopeLane<Value, float, kLanes, kWidth>;
  using Pair = typename Lane::Pair;
  static constexpr int kHeads = kLoads * Lane::kHeads;  // of a warp

  const Lane lane;
  const int first_head;
  float sum[kLoads][2][kWidth] = {};

  __device__ __forceinline__ int head(int n) const { return first_head + n * Lane::kHeads + lane.head; }

  __device__ __forceinline__ void load(const NormRopeMean& p, int token, Pair (&pairs)[kLoads]) const {
    const Value* data = static_cast<const Value*>(p.x) + token * p.turn.token_stride;
#pragma unroll
    for (int n = 0; n < kLoads; ++n)
      if (head(n) < p.turn.heads) pairs[n] = lane.load(data, head(n));
  }

  /// Adds the members' rows, in their order; the next one is on its way meanwhile. All lanes must enter.
  __device__ __forceinline__ void add(const NormRopeMean& p, const int64_t* members, int64_t count) {
    const int place = threadIdx.x % 32;
#pragma unroll 1
    for (int64_t first = 0; first < count; first += 32) {
      const int some = static_cast<int>(min(int64_t{32}, count - first));
      const int member = place < some ? static_cast<int>(members[first + place]) : 0;
      int token = __shfl_sync(kAllLanes, member, 0);
      Pair next[kLoads];
      load(p, token, next);
#pragma unroll 1
      for (int i = 0; i < some; ++i) {
        Pair pairs[kLoads];
#pragma unroll
        for (int n = 0; n < kLoads; ++n) pairs[n] = next[n];
        float cosine[kWidth], sine[kWidth];
        lane.load_angles(p.turn, place_of(static_cast<uint32_t>(token), p.turn), cosine, sine);
        if (i + 1 < some) {
          token = __shfl_sync(kAllLanes, member, i + 1);
          load(p, token, next);
        }
#pragma unroll
        for (int n = 0; n < kLoads; ++n) {
          float a[kWidth], b[kWidth];
          lane.turn(pairs[n], p.turn.eps, cosine, sine, a, b);
#pragma unroll
          for (int c = 0; c < kWidth; ++c) {
            sum[n][0][c] += a[c];
            sum[n][1][c] += b[c];
          }
        }
      }
    }
  }

  /// Adds the sums of the block's warps up, in their order: the last warp has them all. shared: of kHeads
  /// heads.
  __device__ __forceinline__ void join(float* shared) {
#pragma unroll 1
    for (int warp = 0; warp < kWarps; ++warp) {
      if (threadIdx.x / 32 == warp) {
#pragma unroll
        for (int n = 0; n < kLoads; ++n) {
          float* at = shared + (n * Lane::kHeads + lane.head) * Lane::kDim + lane.element;
#pragma unroll
          for (int c = 0; c < kWidth; ++c) {
            at[c] = sum[n][0][c] += warp > 0 ? at[c] : 0;
            at[Lane::kQuarter + c] = sum[n][1][c] += warp > 0 ? at[Lane::kQuarter + c] : 0;
          }
        }
      }
      __syncthreads();
    }
  }

  __device__ __forceinline__ void store(const NormRopeMean& p, int64_t row, int64_t count) {
    const auto divisor = static_cast<float>(max(count, int64_t{1}));
    Value* data = static_cast<Value*>(p.out) + row * p.out_stride + lane.element;
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if (head(n) >= p.turn.heads) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int c = 0; c < kWidth; ++c) sum[n][half][c] /= divisor;
        store_values(sum[n][half], data + head(n) * Lane::kDim + half * Lane::kQuarter);
      }
    }
  }
};

/// A warp takes a row of `out`, or all of the block's share a long one.
template <typename Value, int kLanes>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) norm_rope_mean_kernel(const NormRopeMean p) {
  using Sum = TurnedSum<Value, kLanes>;
  __shared__ float shared[Sum::kHeads * Sum::Lane::kDim];
  const int warp = threadIdx.x / 32, first_head = blockIdx.y * Sum::kHeads;
  const int64_t first_row = int64_t{blockIdx.x} * kWarps, row = first_row + warp;
  const typename Sum::Lane lane(p.turn);
  const bool exists = row < p.rows;
  const int64_t begin = exists ? p.offsets[row] : 0, count = exists ? p.offsets[row + 1] - begin : 0;
  const bool some_long = __syncthreads_or(count > kLong);
  if (exists && count <= kLong) {
    Sum sum{lane, first_head};
    sum.add(p, p.members + begin, count);
    sum.store(p, row, count);
  }
  if (!some_long) return;
  for (int64_t r = first_row; r < min(first_row + kWarps, p.rows); ++r) {
    const int64_t start = p.offsets[r], members = p.offsets[r + 1] - start;
    if (members <= kLong) continue;
    const int64_t share = (members + kWarps - 1) / kWarps, from = min(warp * share, members);
    Sum sum{lane, first_head};
    sum.add(p, p.members + start + from, min(share, members - from));
    sum.join(shared);
    if (warp == kWarps - 1) sum.store(p, r, members);
    __syncthreads();  // before the next row's sums
  }
}

template <typename Value>
void launch(const NormRopeMean& means, cudaStream_t stream) {
  if (means.rows == 0 || means.turn.heads == 0) return;
  const auto run = [&](auto kernel, int lanes) {
    const int64_t heads = kLoads * 32 / lanes;
    const dim3 blocks(static_cast<unsigned>((means.rows + kWarps - 1) / kWarps),
                      static_cast<unsigned>((means.turn.heads + heads - 1) / heads));
    kernel<<<blocks, kWarps * 32, 0, stream>>>(means);
    check_launch("means of turned heads");
  };
  switch (means.turn.head_dim / kWidth) {
    case 4:
      return run(norm_rope_mean_kernel<Value, 2>, 2);
    case 8:
      return run(norm_rope_mean_kernel<Value, 4>, 4);
    case 16:
      return run(norm_rope_mean_kernel<Value, 8>, 8);
    case 32:
      return run(norm_rope_mean_kernel<Value, 16>, 16);
    default:
      throw std::invalid_argument("means of turned heads: not of this head dim");
  }
}

}  // namespace

void norm_rope_mean_cuda(OperandType type, const NormRopeMean& means, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case OperandType::bf16:
      return launch<__nv_bfloat16>(means, cuda_stream);
    case OperandType::fp16:
      return launch<__half>(means, cuda_stream);
    case OperandType::fp32:
      return launch<float>(means, cuda_stream);
  }
}

}  // namespace vggt
