#pragma once
// What the kernels on tensor cores do with the two rows of logits and sums that a thread holds. Number i of
// an accumulator of m16n8 or m64nN belongs to row i / 2 % 2.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <type_traits>

#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/split_scale.cuh"

namespace vggt {

/// The larger of two numbers; NaN where one of them is NaN.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

template <class T>
__device__ __forceinline__ uint32_t packed_pair(float low, float high) {
  uint32_t both;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
}

// Note [Slack]: sums are kept relative to `peak`, which follows the largest logit only once that is kSlack
// ahead (in base 2). The algebra holds for any peak. With a slack of 8, weights reach 2^8, far from fp16's
// largest number, and rescaling w all but vanishes from the loop.
//
// Note [Unseen maximum]: the kernels for Hopper do not even look for the largest logit of a tile, but of a
// row's first, unless that number itself is wanted. Weights are taken relative to the peak as it is. A
// thread's sum of them, which is needed anyway, says whether they are in range: none is greater. There are
// three cases.
// - The sum is at most kMost: nothing more is to be done.
// - It is greater, but below kOvertaken: the peak rises so far that the largest sum of the row's four threads
//   becomes 1, and all weights are brought to it. Like the largest logit, such a peak leaves no weight above
//   1 and a row's sum that is not below 1, on which the errors of weights in fp16 are relative to the output.
// - It is greater still or no number, or a row has no peak yet: the logits are computed again and looked at.
// The last two happen where a tile brings logits far above all before it, so hardly ever but in a row's first
// tiles; a row of NaN has the last one in each tile. This saves a fifth of the loop's instructions, and the
// time in which a warp waits for its shuffles. (The kernels for sm_80 gain nothing by it.)
//
// Note [Lift]: a weight in fp16 has an error of 2^-25, however small the weight is. Turbo's weights are
// therefore multiplied by 2^kTurboLift, and so are s and w. With the slack, a weight is then at most 2^15
// (where the maximum is unseen, kMost).
constexpr int kTurboLift = 7;

// Note [Far logits]: one fma computes a logit's distance to the peak, from the rounded product of peak and
// scale. The rounding shifts all distances of a row alike, by up to 2^-25 of the peak, which does no harm
// until weights leave the range of their type. Where the peak is beyond kFar, the kernel subtracts it before
// scaling: that is exact for the logits near the peak, the only ones with weight. Split's logits are below
// 2^18 (see Note [Splitting]), so none is far; its factors are taken from the rounded products, as its
// weights are, and are as exact.

/// m and s of two rows. A thread's s, and m of tiles that are looked at, cover its own columns until
/// join_columns(). kSlack = 0: of split. Sums are 2^kLift_ times larger, see Note [Lift].
template <int kSlack, int kLift_ = 0>
struct SoftmaxRows {
  static constexpr int kLift = kLift_;
  static constexpr bool kNeverFar = kSlack == 0;  // see Note [Far logits]
  static constexpr float kFar = 4096;
  // See Note [Unseen maximum]. With kMost every weight fits fp16, in whose range 2^13 leaves some room, and
  // split's do so times 2^kSplitLift. The factor of weights below kOvertaken is above 2^-126, below which
  // exp2_of() gives 0.
  static constexpr float kMost = kSlack == 0 ? 1.99F : kLift > 0 ? 65504 : 1 << 13, kOvertaken = 0x1p100F;

  float largest[2] = {-INFINITY, -INFINITY};  // q·k, times the sign of the scale; NaN once one was
  float peak[2] = {-INFINITY, -INFINITY};     // of largest, what s and w are relative to; NaN for +inf
  float sum[2] = {0, 0};
  float shift[2] = {INFINITY, INFINITY};  // added to scaled logits: kLift minus the peak, or kLift where far
  bool far = false;                       // see Note [Far logits]
  bool settled = false;                   // both rows have a peak, which is a number

  /// The factor that turns sums relative to the peak into sums relative to `to`.
  __device__ __forceinline__ float factor_to(float to, int row, float scale2) const {
    return exp2_of(kNeverFar ? shift_by(to, scale2) - shift[row] : (peak[row] - anchor(to)) * scale2);
  }

  // A tile that is looked at: first lags(), whether rise() is due in all threads of the warp, because a row
  // of this thread needs a new peak or is far. After rise() w must be multiplied by factor. Then weigh(),
  // which replaces logits by their weights and adds these to sum. A NaN or +inf makes all results of its row
  // NaN.

  template <int kCount>
  __device__ __forceinline__ bool lags(const float (&scores)[kCount], float scale2) {
    float most[2];
    find_largest(scores, most);
    return falls_behind(most, scale2) || far;
  }

  template <int kCount>
  __device__ __forceinline__ void rise(float (&scores)[kCount], float scale2, float (&factor)[2]) {
    join_lanes(largest);
    raise_peaks(scale2, factor);
    if (far) lower(scores);
  }

  template <int kCount>
  __device__ __forceinline__ void weigh(float (&scores)[kCount], float scale2) {
    float total[2];
    take_weights(scores, scale2, total);
    keep(total);
  }

  // A tile whose largest logits nobody looks for, see Note [Unseen maximum]: weigh_unseen(), then keep()
  // where all threads of the warp have fits(total), or overtake() where all have may_overtake(total). Before
  // write_row(), forget_largest().

  /// Replaces logits by their weights; total: the sums of these by row.
  template <int kCount>
  __device__ __forceinline__ void weigh_unseen(float (&scores)[kCount], float scale2,
                                               float (&total)[2]) const {
    if (far) lower(scores);
    take_weights(scores, scale2, total);
  }
  __device__ __forceinline__ bool fits(const float (&total)[2]) const {
    return settled && total[0] <= kMost && total[1] <= kMost;
  }
  __device__ __forceinline__ bool may_overtake(const float (&total)[2]) const {
    return settled && total[0] < kOvertaken && total[1] < kOvertaken;
  }

  __device__ __forceinline__ void keep(const float (&total)[2]) {
    sum[0] += total[0];
    sum[1] += total[1];
  }

  /// Raises the peaks by the rows' largest sums, and keeps the weights relative to them. w must be multiplied
  /// by factor.
  template <int kCount>
  __device__ __forceinline__ void overtake(float (&weights)[kCount], float scale2, float (&total)[2],
                                           float (&factor)[2]) {
    float most[2] = {total[0], total[1]};
    join_lanes(most);
#pragma unroll
    for (int row = 0; row < 2; ++row)
      largest[row] = fminf(peak[row] + fmaxf(log2f(most[row]) - kLift, 0) / scale2, FLT_MAX);
    raise_peaks(scale2, factor);
#pragma unroll
    for (int i = 0; i < kCount; ++i) weights[i] *= factor[i / 2 % 2];
    total[0] *= factor[0];
    total[1] *= factor[1];
    keep(total);
  }

  __device__ __forceinline__ void forget_largest() {
    largest[0] = peak[0];
    largest[1] = peak[1];
  }

  __device__ __forceinline__ void join_columns() {
    join_lanes(largest);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(~0u, sum[row], 1);
      sum[row] += __shfl_xor_sync(~0u, sum[row], 2);
    }
  }

 private:
  /// What takes scaled logits to their distances from a peak, plus kLift.
  __device__ static __forceinline__ float shift_by(float peak, float scale2) {
    return kLift - anchor(peak * scale2);
  }

  /// Logits to their distances from the peak, see Note [Far logits].
  template <int kCount>
  __device__ __forceinline__ void lower(float (&scores)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] -= anchor(peak[i / 2 % 2]);
  }

  template <int kCount>
  __device__ __forceinline__ void take_weights(float (&scores)[kCount], float scale2,
                                               float (&total)[2]) const {
    float part[2][2] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = i / 2 % 2;
      scores[i] = exp2_of(fmaf(scores[i], scale2, shift[row]));
      part[row][i / 4 % 2] += scores[i];
    }
    total[0] = part[0][0] + part[0][1];
    total[1] = part[1][0] + part[1][1];
  }

  /// The largest of this thread's logits by row.
  template <int kCount>
  __device__ static __forceinline__ void find_largest(const float (&scores)[kCount], float (&most)[2]) {
    float top[2][2] = {{scores[0], scores[4]}, {scores[2], scores[6]}};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float& one = top[i / 2 % 2][i / 4 % 2];
      if (i >= 8 || i % 2 == 1) one = max_or_nan(one, scores[i]);
    }
    most[0] = max_or_nan(top[0][0], top[0][1]);
    most[1] = max_or_nan(top[1][0], top[1][1]);
  }

  /// The largest of the four threads that share the rows.
  __device__ static __forceinline__ void join_lanes(float (&most)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      most[row] = max_or_nan(most[row], __shfl_xor_sync(~0u, most[row], 1));
      most[row] = max_or_nan(most[row], __shfl_xor_sync(~0u, most[row], 2));
    }
  }

  __device__ __forceinline__ bool falls_behind(const float (&most)[2], float scale2) {
    bool behind = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const bool new_largest = !(most[row] <= largest[row]);
      largest[row] = max_or_nan(largest[row], most[row]);
      // Without a slack the largest is the peak, for which there need be no register.
      behind |= kSlack == 0 ? new_largest : !((largest[row] - peak[row]) * scale2 <= kSlack);
    }
    return behind;
  }

  __device__ __forceinline__ void raise_peaks(float scale2, float (&factor)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float next = largest[row] == INFINITY ? NAN : largest[row];
      factor[row] = factor_to(next, row, scale2);
      sum[row] *= factor[row];
      peak[row] = next;
    }
    settled = peak[0] > -INFINITY && peak[1] > -INFINITY;
    shift[0] = shift_by(peak[0], scale2);
    shift[1] = shift_by(peak[1], scale2);
    if constexpr (!kNeverFar) {
      far = fmaxf(fabsf(shift[0]), fabsf(shift[1])) > kFar;
      if (far) shift[0] = shift[1] = kLift;
    }
  }
};

using HalfRows = SoftmaxRows<8>;
using TurboRows = SoftmaxRows<8, kTurboLift>;
using SplitRows = SoftmaxRows<0>;

/// A number of w without its scale. With an fp32 output the operands are parts, and w is 2^exponent times too
/// large.
template <class Out>
__device__ __forceinline__ float unscaled(float x, int exponent) {
  return std::is_same_v<Out, float> ? ldexpf(x, -exponent) : x;
}

/// Writes what p wants of row `row`, 0 or 1, of a thread's accumulator w: the numbers from `column` on of the
/// block's query number `query`. rows: after join_columns(). exponent: as in unscaled().
template <class Out, int kCount, class Rows>
__device__ __forceinline__ void write_row(const CudaProblem& p, const BlockWork& work, int query, int row,
                                          int column, float scale2, const Rows& rows,
                                          const float (&w)[kCount], int exponent = 0) {
  constexpr float kLowered = 1.0f / (1 << Rows::kLift);  // see Note [Lift]
  const bool finished = p.partitions == 1 && p.out;
  if constexpr (!std::is_same_v<Out, float>) {
    if (finished) {
      const float factor = normaliser(rows.sum[row]);
      const int64_t at = work.batch * p.out_strides.batch + work.head * p.out_strides.head +
                         (work.first_query + query) * p.out_strides.token + column;
      uint32_t* out = reinterpret_cast<uint32_t*>(static_cast<Out*>(p.out) + at);
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i)
        out[4 * i] = packed_pair<Out>(w[4 * i + 2 * row] * factor, w[4 * i + 2 * row + 1] * factor);
      if (column == 0) write_numbers(p, work, query, rows.peak[row] * scale2, rows.sum[row] * kLowered);
      return;
    }
  }
  const float m2 = rows.largest[row] * scale2,
              lowered = rows.factor_to(rows.largest[row], row, scale2) * kLowered;
  const float factor = finished ? normaliser(rows.sum[row]) : lowered;
  float2* wide = reinterpret_cast<float2*>(wide_row(p, work, query) + column);
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i)
    wide[4 * i] = make_float2(unscaled<Out>(w[4 * i + 2 * row] * factor, exponent),
                              unscaled<Out>(w[4 * i + 2 * row + 1] * factor, exponent));
  if (column == 0) write_numbers(p, work, query, m2, rows.sum[row] * lowered);
}

}  // namespace vggt
