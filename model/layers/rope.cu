#include <cfloat>
#include <type_traits>

#include "attention/cuda/split_pair.cuh"
#include "model/layers/rope_lane.cuh"

namespace vggt {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr int kLoads = 2;  // heads of which a lane loads its part before it uses the first

/// The parts of a token's heads.
template <typename Lane, int kLanes>
struct PartsOfToken {
  static constexpr int kWidth = Lane::kWidth;
  const NormRopeParts& to;
  int64_t row, token;  // of the token's first head; of its sequence
  float bound, factor;

  /// The norm gives a head a length of √D at most, and turning a pair of numbers by an angle keeps its
  /// length.
  __device__ __forceinline__ PartsOfToken(const NormRopeParts& to, const Lane& lane, int64_t token,
                                          int64_t heads)
      : to(to) {
    const auto all = static_cast<uint32_t>(to.first + token), sequence = static_cast<uint32_t>(to.sequence);
    row = int64_t{all / sequence} * heads;
    this->token = all % sequence;
    float weight = 0, bias = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      weight = fmaxf(weight, fmaxf(fabsf(lane.weight[0][i]), fabsf(lane.weight[1][i])));
      bias = fmaxf(bias, fmaxf(fabsf(lane.bias[0][i]), fabsf(lane.bias[1][i])));
    }
    constexpr float kDiagonal = 1.41422f, kRounding = 1.0001f;
    const float most =
        sqrtf(Lane::kDim) * largest_of_lanes<kLanes>(weight) + kDiagonal * largest_of_lanes<kLanes>(bias);
    bound = fminf(fmaxf(most * kRounding, 0x1p-100f), FLT_MAX);  // whose factors fp32 has
    factor = ldexpf(1, split_exponent(bound));
  }

  /// The largest number of this head that is known already, as its bits.
  __device__ __forceinline__ int known(int head) const {
    return __ldcg(reinterpret_cast<const int*>(to.largest + row + head));
  }

  /// Of head `head`, which is none from `heads` on; a and b are this lane's numbers. All lanes must enter.
  __device__ __forceinline__ void store(const Lane& lane, int head, int64_t heads, int known,
                                        const float (&a)[kWidth], const float (&b)[kWidth]) const {
    // The bits of non-negative floats, taken as integers, have the order of the floats; those of NaN are
    // more.
    int most = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      most = max(most, max(__float_as_int(fabsf(a[i])), __float_as_int(fabsf(b[i]))));
    most = min(largest_of_lanes<kLanes>(most), __float_as_int(INFINITY));
    if (head >= heads) return;
    if (threadIdx.x % kLanes == 0) {
      if (most > known) atomicMax(reinterpret_cast<int*>(to.largest + row + head), most);
      if (token == 0) to.bound[row + head] = bound;
    }
    __half* high = static_cast<__half*>(to.high) + ((row + head) * to.sequence + token) * Lane::kDim;
    store_half(a, high + lane.element);
    store_half(b, high + lane.element + Lane::kQuarter);
  }

 private:
  __device__ __forceinline__ void store_half(const float (&x)[kWidth], __half* high) const {
    Values<__half2, kWidth / 2> highs, lows;
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const SplitPair pair = split_pair(x[2 * i] * factor, x[2 * i + 1] * factor);
      highs.at[i] = pair.high;
      lows.at[i] = pair.low;
    }
    *reinterpret_cast<Values<__half2, kWidth / 2>*>(high) = highs;
    *reinterpret_cast<Values<__half2, kWidth / 2>*>(high + to.low) = lows;
  }
};

struct NoParts {
  __device__ __forceinline__ NoParts(const auto&...) {}
  __device__ __forceinline__ int known(int) const { return 0; }
  __device__ __forceinline__ void store(const auto&...) const {}
};

/// One warp per token; all heads of a token turn by the same angles.
template <typename Value, typename State, int kLanes, bool kParts = false>
__global__ void __launch_bounds__(kWarpsPerBlock * 32)
    norm_rope_kernel(Value* __restrict__ x, const NormRopeParams<State> p,
                     const __grid_constant__ NormRopeParts to) {
  using Lane = RopeLane<Value, State, kLanes>;
  using Parts = std::conditional_t<kParts, PartsOfToken<Lane, kLanes>, NoParts>;
  const int64_t token = int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / 32;
  if (token >= p.tokens) return;
  const int head = threadIdx.x % 32 / kLanes;
  Value* data = x + token * p.token_stride;
  const Lane lane(p);
  const Parts parts(to, lane, token, p.heads);
  typename Lane::Pair pairs[kLoads];
  int known[kLoads];
  const auto load = [&](int base) {
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int at = base + n * Lane::kHeads + head;
      if (at >= p.heads) continue;
      pairs[n] = lane.load(data, at);
      known[n] = parts.known(at);
    }
  };
  load(0);
  State cosine[Lane::kWidth], sine[Lane::kWidth];
  lane.load_angles(p, place_of(static_cast<uint32_t>(token), p), cosine, sine);
  for (int base = 0; base < p.heads; base += kLoads * Lane::kHeads) {
    if (base > 0) load(base);
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int at = base + n * Lane::kHeads + head;
      State a[Lane::kWidth], b[Lane::kWidth];
      lane.turn(pairs[n], p.eps, cosine, sine, a, b);
      parts.store(lane, at, p.heads, known[n], a, b);
      if (at >= p.heads) continue;
      store_values(a, data + at * Lane::kDim + lane.element);
      store_values(b, data + at * Lane::kDim + lane.element + Lane::kQuarter);
    }
  }
}

/// Any other head dim or place in memory (only tiny models have them): one thread per vector.
template <typename Value, typename State>
__global__ void norm_rope_any_dim_kernel(Value* __restrict__ x_of, const NormRopeParams<State> p) {
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (vector >= p.tokens * p.heads) return;
  const int64_t head = vector % p.heads, token = vector / p.heads;
  const int64_t dim = p.head_dim, quarter = dim / 4;
  Value* data = x_of + token * p.token_stride + head * dim;
  State mean = 0, variance = 0;
  for (int64_t i = 0; i < dim; ++i) mean += static_cast<State>(data[i]);
  mean /= dim;
  for (int64_t i = 0; i < dim; ++i) {
    const State centred = static_cast<State>(data[i]) - mean;
    variance += centred * centred;
  }
  const State scale = 1 / sqrt(variance / dim + p.eps);
  const State* weight = p.weight;
  const State* bias = p.bias;
  const Place place = place_of(static_cast<uint32_t>(token), p);
  for (int64_t i = 0; i < 2 * quarter; ++i) {
    const int64_t half = i / quarter, j = i % quarter, a = half * 2 * quarter + j, b = a + quarter;
    const int64_t angle = int64_t{half == 0 ? place.row : place.column} * quarter + j;
    const State x = (static_cast<State>(data[a]) - mean) * scale * weight[a] + bias[a];
    const State y = (static_cast<State>(data[b]) - mean) * scale * weight[b] + bias[b];
    data[a] = static_cast<Value>(x * p.cosine[angle] - y * p.sine[angle]);
    data[b] = static_cast<Value>(y * p.cosine[angle] + x * p.sine[angle]);
  }
}

template <typename State>
bool is_aligned(const NormRopeParams<State>& p) {
  const auto all = reinterpret_cast<uintptr_t>(p.weight) | reinterpret_cast<uintptr_t>(p.bias) |
                   reinterpret_cast<uintptr_t>(p.cosine) | reinterpret_cast<uintptr_t>(p.sine);
  return all % 16 == 0;
}

template <typename Value, typename State>
void launch(void* x, const NormRopeParams<State>& params, cudaStream_t stream,
            const NormRopeParts& parts = {}) {
  constexpr int kWidth = 16 / sizeof(Value);
  if (params.tokens == 0) return;
  if (params.tokens > UINT32_MAX) throw std::invalid_argument("norm_rope: more tokens than 32 bits count");
  const auto blocks = static_cast<unsigned>((params.tokens + kWarpsPerBlock - 1) / kWarpsPerBlock);
  Value* values = static_cast<Value*>(x);
  const auto run = [&](auto kernel) {
    kernel<<<blocks, kWarpsPerBlock * 32, 0, stream>>>(values, params, parts);
    check_launch("norm_rope");
  };
  const bool aligned =
      reinterpret_cast<uintptr_t>(x) % 16 == 0 && params.token_stride % kWidth == 0 && is_aligned(params);
  if (parts.high) {
    if (parts.first + params.tokens > UINT32_MAX)
      throw std::invalid_argument("norm_rope: more tokens than 32 bits count");
    if (!aligned) throw std::invalid_argument("norm_rope: parts of heads that are not aligned");
    if constexpr (std::is_same_v<Value, float>) {
      if (params.head_dim == 128) return run(norm_rope_kernel<float, float, 16, true>);
      if (params.head_dim == 64) return run(norm_rope_kernel<float, float, 8, true>);
    }
    throw std::invalid_argument("norm_rope: parts of other heads than 64 or 128 fp32 numbers");
  }
  if (aligned) {
    if (params.head_dim == 32 * kWidth) return run(norm_rope_kernel<Value, State, 16>);
    if (params.head_dim == 16 * kWidth) return run(norm_rope_kernel<Value, State, 8>);
    if (params.head_dim == 8 * kWidth) return run(norm_rope_kernel<Value, State, 4>);
    if (params.head_dim == 4 * kWidth) return run(norm_rope_kernel<Value, State, 2>);
  }
  const int64_t vectors = params.tokens * params.heads;
  norm_rope_any_dim_kernel<Value, State>
      <<<static_cast<unsigned>((vectors + 127) / 128), 128, 0, stream>>>(values, params);
  check_launch("norm_rope");
}

}  // namespace

void norm_rope_cuda(OperandType type, void* x, const NormRopeParams<float>& params, void* stream,
                    const NormRopeParts& parts) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case OperandType::bf16:
      return launch<__nv_bfloat16>(x, params, cuda_stream);
    case OperandType::fp16:
      return launch<__half>(x, params, cuda_stream);
    case OperandType::fp32:
      return launch<float>(x, params, cuda_stream, parts);
  }
}

void norm_rope_cuda(void* x, const NormRopeParams<double>& params, void* stream) {
  launch<double>(x, params, static_cast<cudaStream_t>(stream));
}

}  // namespace vggt
