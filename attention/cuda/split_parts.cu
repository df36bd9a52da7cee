// Splits fp32 operands into one or two fp16 parts. One pass finds the largest number of each head, one
// splits; where q and k are ready and v has bounds, one pass splits v and finds what decides which heads are
// refused.
#include <algorithm>
#include <cfloat>
#include <climits>

#include "attention/cuda/split_parts.h"
#include "attention/cuda/split_scale.cuh"

namespace vggt {
namespace {

constexpr int kThreads = 256, kUnit = 4;  // numbers of a thread: 16 bytes
constexpr int kMostTokens = 512;          // of a block

/// The limits beyond which a head is refused, see Note [Splitting].
template <int kParts>
struct Limits {
  static constexpr float kSmallest =
      1.0f / (1 << (kParts == 2 ? 12 : 16));  // row of v, relative to the largest number
  static constexpr float kSmallestPerKey = 1.0f / (1 << 23);
  static constexpr int kMostLogit =
      kParts == 2 ? 7 : 24;  // exponent of scale·|q|·|k|, each the head's largest

  /// Of a row of v in a head with this largest number.
  static __device__ __forceinline__ float smallest_row(float largest, int keys) {
    return largest * fmaxf(kSmallest, kSmallestPerKey * static_cast<float>(keys));
  }
};

/// q, k or v of a call.
struct Operand {
  const float* data;
  AttentionStrides strides;
  int tokens;
  __half* parts;   // [parts,B·A,N,D]
  float* largest;  // [B·A]
};
struct Operands {
  Operand of[3];
  const float* seen[2];          // [B·A]: the largest |q| and |k|; infinite where one is not finite
  int heads, rows, dim, chunks;  // rows: B·A; chunks: of kMostTokens tokens
  int keys;                      // of the longest sequence
  float scale;
  int* refused;      // [B·A]
  float* rows_of_v;  // [2,B·A], see SplitParts
};

__device__ __forceinline__ float largest_of(float4 x) {
  return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}

/// Calls visit(token, column, numbers) for the units of this block's chunk of one head.
template <class F>
__device__ __forceinline__ void visit_units(const Operands& o, const Operand& x, int row, int chunk,
                                            F visit) {
  const float* base = x.data + row / o.heads * x.strides.batch + row % o.heads * x.strides.head;
  const int units = o.dim / kUnit, first = chunk * kMostTokens, end = min(x.tokens, first + kMostTokens);
  for (int i = threadIdx.x; i < (end - first) * units; i += kThreads) {
    const int token = first + i / units, column = i % units * kUnit;
    visit(token, column, *reinterpret_cast<const float4*>(base + token * x.strides.token + column));
  }
}

// The bits of non-negative floats, taken as integers, have the order of the floats.

__device__ __forceinline__ void raise_to(float* most, float x) {
  atomicMax(reinterpret_cast<int*>(most), __float_as_int(x));
}
__device__ __forceinline__ void lower_to(float* least, float x) {
  atomicMin(reinterpret_cast<int*>(least), __float_as_int(x));
}

__device__ __forceinline__ float largest_of_warp(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
__device__ __forceinline__ float smallest_of_warp(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fminf(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}

__device__ __forceinline__ bool is_finite(float4 x) {
  return isfinite(x.x) && isfinite(x.y) && isfinite(x.z) && isfinite(x.w);
}

__global__ void __launch_bounds__(kThreads) largest_kernel(const __grid_constant__ Operands o) {
  const Operand& x = o.of[blockIdx.y];
  const int row = blockIdx.x / o.chunks, chunk = blockIdx.x % o.chunks;
  float most = 0;
  bool finite = true;
  visit_units(o, x, row, chunk, [&](int, int, float4 four) {
    most = fmaxf(most, largest_of(four));
    finite &= is_finite(four);
  });
  if (!finite) o.refused[row] = 1;
  most = largest_of_warp(most);
  if (threadIdx.x % 32 == 0) raise_to(x.largest + row, most);
}

__device__ __forceinline__ bool queries_or_keys_do_not_fit(const Operands& o, int row, int most) {
  constexpr float kLoosest = 1 << 11;  // that a bound may be
  const float q = o.seen[0][row], k = o.seen[1][row];
  if (isinf(q) || isinf(k)) return true;
  if (q == 0 || k == 0) return false;
  if (o.of[0].largest[row] > q * kLoosest || o.of[1].largest[row] > k * kLoosest) return true;
  return ilogbf(q) + ilogbf(k) + ilogbf(o.scale) > most;
}

/// kReady: of v alone, by its bounds; refuse_kernel decides when all rows have been seen.
template <int kParts, bool kReady>
__global__ void __launch_bounds__(kThreads) split_kernel(const __grid_constant__ Operands o) {
  const Operand& x = o.of[kReady ? 2 : blockIdx.y];
  const int row = blockIdx.x / o.chunks, chunk = blockIdx.x % o.chunks;
  const float largest = x.largest[row];
  const int exponent = split_exponent(largest);
  const int64_t part = static_cast<int64_t>(o.rows) * x.tokens * o.dim;
  __half* out = x.parts + static_cast<int64_t>(row) * x.tokens * o.dim;
  const bool values = kReady || blockIdx.y == 2;
  const float smallest = Limits<kParts>::smallest_row(largest, o.keys);
  float largest_row = 0, smallest_row = FLT_MAX;
  bool finite = true;
  if (!kReady && threadIdx.x == 0 && queries_or_keys_do_not_fit(o, row, Limits<kParts>::kMostLogit))
    o.refused[row] = 1;
  visit_units(o, x, row, chunk, [&](int token, int column, float4 four) {
    const SplitPair a = split_pair(ldexpf(four.x, exponent), ldexpf(four.y, exponent));
    const SplitPair b = split_pair(ldexpf(four.z, exponent), ldexpf(four.w, exponent));
    __half2* to = reinterpret_cast<__half2*>(out + static_cast<int64_t>(token) * o.dim + column);
    to[0] = a.high;
    to[1] = b.high;
    if constexpr (kParts == 2) {
      to[part / 2] = a.low;
      to[part / 2 + 1] = b.low;
    }
    if (!values) return;
    const int lanes_of_row = o.dim / kUnit;  // 16 or 32
    const unsigned row_mask = lanes_of_row == 32 ? ~0u : 0xFFFFu << (threadIdx.x & 16);
    float most = largest_of(four);
    for (int lanes = 1; lanes < lanes_of_row; lanes *= 2)
      most = fmaxf(most, __shfl_xor_sync(row_mask, most, lanes));
    if constexpr (kReady) {
      largest_row = fmaxf(largest_row, most);
      smallest_row = fminf(smallest_row, most);
      finite &= is_finite(four);
    } else {
      if (most < smallest) o.refused[row] = 1;
    }
  });
  if constexpr (kReady) {
    if (!finite) o.refused[row] = 1;
    largest_row = largest_of_warp(largest_row);
    smallest_row = smallest_of_warp(smallest_row);
    if (threadIdx.x % 32 != 0) return;
    raise_to(o.rows_of_v + row, largest_row);
    lower_to(o.rows_of_v + o.rows + row, smallest_row);
  }
}

/// One thread for each head of a call whose q and k were ready.
__global__ void __launch_bounds__(kThreads) refuse_kernel(const __grid_constant__ Operands o) {
  const int row = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (row >= o.rows) return;
  constexpr float kLoosest = 1 << 21;  // that v's bound may be for a row
  const float largest = o.rows_of_v[row], smallest = o.rows_of_v[o.rows + row];
  const float bound = o.of[2].largest[row];
  const bool small_row = smallest < Limits<2>::smallest_row(largest, o.keys) || smallest * kLoosest < bound;
  if ((largest > 0 && small_row) || largest > bound ||
      queries_or_keys_do_not_fit(o, row, Limits<2>::kMostLogit))
    o.refused[row] = 1;
}

int64_t aligned(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

constexpr int64_t kNumbersOfAHead = 6;  // three bounds, whether it is refused, two rows of v

}  // namespace

int64_t split_bytes(const CudaProblem& p, int count) {
  const int64_t rows = static_cast<int64_t>(p.batch) * p.heads;
  const int64_t numbers = count * rows * p.dim * static_cast<int64_t>(sizeof(__half));  // of a token
  const int64_t of_qk = p.ready.q ? 0 : aligned(numbers * p.queries) + aligned(numbers * p.keys);
  return of_qk + aligned(numbers * p.keys) + kNumbersOfAHead * rows * 4;
}

SplitParts split_parts(const CudaProblem& p, int count, void* memory) {
  const int64_t rows = static_cast<int64_t>(p.batch) * p.heads;
  const int64_t numbers = count * rows * p.dim * static_cast<int64_t>(sizeof(__half));
  char* base = static_cast<char*>(memory);
  SplitParts parts;
  parts.count = count;
  parts.q = p.ready.q;
  parts.k = p.ready.k;
  if (!p.ready.q) {
    parts.q = base;
    parts.k = base += aligned(numbers * p.queries);
    base += aligned(numbers * p.keys);
  }
  parts.v = base;
  parts.largest = reinterpret_cast<float*>(base += aligned(numbers * p.keys));
  parts.refused = reinterpret_cast<int*>(parts.largest + 3 * rows);
  parts.rows_of_v = parts.largest + 4 * rows;
  return parts;
}

CudaProblem of_parts(const CudaProblem& p, const SplitParts& parts) {
  CudaProblem q = p;
  auto dense = [&](int tokens) {
    const int64_t head = static_cast<int64_t>(tokens) * p.dim;
    return AttentionStrides{p.heads * head, head, p.dim};
  };
  q.q = parts.q;
  q.k = parts.k;
  q.v = parts.v;
  q.q_strides = dense(p.queries);
  q.k_strides = q.v_strides = dense(p.keys);
  q.largest = parts.largest;
  q.marks = parts.refused;
  q.mark = 0;
  return q;
}

CudaProblem of_refused(const CudaProblem& p, const SplitParts& parts) {
  CudaProblem q = p;
  q.marks = parts.refused;
  q.mark = 1;
  return q;
}

cudaError_t prepare_split(const CudaProblem& p, const SplitParts& parts, cudaStream_t stream) {
  const int rows = p.batch * p.heads;
  const bool ready = p.ready.q != nullptr;
  const int chunks = ((ready ? p.keys : std::max(p.queries, p.keys)) + kMostTokens - 1) / kMostTokens;
  auto operand = [&](const void* data, const AttentionStrides& strides, int tokens, void* to, int which) {
    return Operand{static_cast<const float*>(data), strides, tokens, static_cast<__half*>(to),
                   parts.largest + which * rows};
  };
  const float* seen = ready ? p.ready.largest : parts.largest;
  const Operands o{
      {operand(p.q, p.q_strides, p.queries, parts.q, 0), operand(p.k, p.k_strides, p.keys, parts.k, 1),
       operand(p.v, p.v_strides, p.keys, parts.v, 2)},
      {seen, seen + rows},
      p.heads,
      rows,
      p.dim,
      chunks,
      p.longest_keys,
      p.scale,
      parts.refused,
      parts.rows_of_v};
  const int64_t blocks = static_cast<int64_t>(rows) * chunks;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  const std::size_t bytes = rows * sizeof(float);  // of a number of each head
  cudaError_t error = cudaMemsetAsync(parts.largest, 0, 5 * bytes, stream);
  if (error == cudaSuccess && ready) {
    error = cudaMemcpyAsync(parts.largest, p.ready.bounds, 3 * bytes, cudaMemcpyDeviceToDevice, stream);
    // Floats near the largest one.
    if (error == cudaSuccess) error = cudaMemsetAsync(parts.rows_of_v + rows, 0x7F, bytes, stream);
  }
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(blocks), ready ? 1 : 3);
  if (ready) {
    split_kernel<2, true><<<grid, kThreads, 0, stream>>>(o);
    refuse_kernel<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(o);
  } else {
    largest_kernel<<<grid, kThreads, 0, stream>>>(o);
    (parts.count == 2 ? split_kernel<2, false> : split_kernel<1, false>)<<<grid, kThreads, 0, stream>>>(o);
  }
  return cudaGetLastError();
}

}  // namespace vggt
