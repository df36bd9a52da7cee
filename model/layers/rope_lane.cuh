#pragma once
// What one lane does to heads that are normalised and rotated.
#include "model/layers/rope_params.h"
#include "model/layers/row_values.cuh"

namespace vggt {

/// Along the grid of patches, from 1 on; special tokens stand at (0,0).
struct Place {
  int row, column;
};

/// Tokens are counted in 32 bits: divisions of 64 take longer than all other arithmetic of a token.
template <typename State>
__device__ __forceinline__ Place place_of(uint32_t token, const NormRopeParams<State>& p) {
  const int patch = static_cast<int>(token % static_cast<uint32_t>(p.tokens_per_frame)) -
                    static_cast<int>(p.special_tokens);
  if (patch < 0) return {0, 0};
  const int columns = static_cast<int>(p.columns);
  return {patch / columns + 1, patch % columns + 1};
}

/// Each of a head's kLanes neighbouring lanes holds kWidth numbers and those that turn with them, a quarter
/// of the head further: the rotation needs no other lane. A warp takes kHeads heads at a time.
template <typename Value, typename State, int kLanes, int kWidth_ = 16 / sizeof(Value)>
struct RopeLane {
  static constexpr int kWidth = kWidth_, kDim = 2 * kLanes * kWidth, kQuarter = kDim / 4;
  static constexpr int kHeads = 32 / kLanes, kInQuarter = kLanes / 2;
  using Vector = Values<Value, kWidth>;
  struct Pair {
    Vector first, second;
  };

  int head, element, angle;
  bool of_column;  // its half of the head turns with the column
  State weight[2][kWidth], bias[2][kWidth];

  __device__ __forceinline__ explicit RopeLane(const NormRopeParams<State>& p) {
    const int in_head = threadIdx.x % kLanes;
    head = threadIdx.x % 32 / kLanes;
    of_column = in_head >= kInQuarter;
    angle = in_head % kInQuarter * kWidth;
    element = (of_column ? kDim / 2 : 0) + angle;
    load_values(p.weight + element, weight[0]);
    load_values(p.weight + element + kQuarter, weight[1]);
    load_values(p.bias + element, bias[0]);
    load_values(p.bias + element + kQuarter, bias[1]);
  }

  /// This lane's part of a token's head number `at`.
  __device__ __forceinline__ Pair load(const Value* token, int at) const {
    const Value* from = token + at * kDim + element;
    return {*reinterpret_cast<const Vector*>(from), *reinterpret_cast<const Vector*>(from + kQuarter)};
  }

  __device__ __forceinline__ void load_angles(const NormRopeParams<State>& p, const Place& place,
                                              State (&cosine)[kWidth], State (&sine)[kWidth]) const {
    const int64_t at = int64_t{of_column ? place.column : place.row} * kQuarter + angle;
    load_values(p.cosine + at, cosine);
    load_values(p.sine + at, sine);
  }

  /// a and b: the two parts, normalised and rotated. All lanes of the head must enter.
  __device__ __forceinline__ void turn(const Pair& x, State eps, const State (&cosine)[kWidth],
                                       const State (&sine)[kWidth], State (&a)[kWidth],
                                       State (&b)[kWidth]) const {
    State sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      a[i] = static_cast<State>(x.first.at[i]);
      b[i] = static_cast<State>(x.second.at[i]);
      sum += a[i] + b[i];
    }
    const State mean = sum_of_lanes<kLanes>(sum) / kDim;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      a[i] -= mean;
      b[i] -= mean;
      squares += a[i] * a[i] + b[i] * b[i];
    }
    const State scale = 1 / sqrt(sum_of_lanes<kLanes>(squares) / kDim + eps);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const State u = a[i] * scale * weight[0][i] + bias[0][i], v = b[i] * scale * weight[1][i] + bias[1][i];
      a[i] = u * cosine[i] - v * sine[i];
      b[i] = v * cosine[i] + u * sine[i];
    }
  }
};

}  // namespace vggt
