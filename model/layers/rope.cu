#include "model/layers/rope_params.h"
#include "model/layers/row_values.cuh"

namespace vggt {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr int kLoads = 2;  // heads of which a lane loads its part before it uses the first

/// Along the grid of patches, from 1 on; special tokens stand at (0,0).
struct Place {
  int row, column;
};

/// Tokens are counted in 32 bits: divisions of 64 take longer than all other arithmetic of a token.
template <typename State>
__device__ Place place_of(uint32_t token, const NormRopeParams<State>& p) {
  const int patch = static_cast<int>(token % static_cast<uint32_t>(p.tokens_per_frame)) -
                    static_cast<int>(p.special_tokens);
  if (patch < 0) return {0, 0};
  const int columns = static_cast<int>(p.columns);
  return {patch / columns + 1, patch % columns + 1};
}

/// One warp per token. Each of a head's kLanes neighbouring lanes holds 16 bytes and the 16 bytes that turn
/// with them, a quarter of the head further: the rotation needs no other lane. The warp takes 32 / kLanes
/// heads at a time; all heads of a token turn by the same angles.
template <typename Value, typename State, int kLanes>
__global__ void __launch_bounds__(kWarpsPerBlock * 32)
    norm_rope_kernel(Value* __restrict__ x, const NormRopeParams<State> p) {
  constexpr int kWidth = 16 / sizeof(Value), kDim = 2 * kLanes * kWidth, kQuarter = kDim / 4;
  constexpr int kHeads = 32 / kLanes, kInQuarter = kLanes / 2;
  const int64_t token = int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / 32;
  if (token >= p.tokens) return;
  const int lane = threadIdx.x % 32, in_head = lane % kLanes, head = lane / kLanes;
  const bool of_column = in_head >= kInQuarter;  // its half of the head turns with the column
  const int angle = in_head % kInQuarter * kWidth, element = (of_column ? kDim / 2 : 0) + angle;
  Value* data = x + token * p.token_stride + element;

  using Vector = Values<Value, kWidth>;
  Vector first[kLoads], second[kLoads];
  const auto load = [&](int base) {
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int at = base + n * kHeads + head;
      if (at >= p.heads) continue;
      first[n] = *reinterpret_cast<const Vector*>(data + at * kDim);
      second[n] = *reinterpret_cast<const Vector*>(data + at * kDim + kQuarter);
    }
  };
  load(0);
  const Place place = place_of(static_cast<uint32_t>(token), p);
  const int64_t angles = int64_t{of_column ? place.column : place.row} * kQuarter + angle;
  State weight[2][kWidth], bias[2][kWidth], cosine[kWidth], sine[kWidth];
  load_values(p.weight + element, weight[0]);
  load_values(p.weight + element + kQuarter, weight[1]);
  load_values(p.bias + element, bias[0]);
  load_values(p.bias + element + kQuarter, bias[1]);
  load_values(p.cosine + angles, cosine);
  load_values(p.sine + angles, sine);
  for (int base = 0; base < p.heads; base += kLoads * kHeads) {
    if (base > 0) load(base);
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int at = base + n * kHeads + head;
      State a[kWidth], b[kWidth], sum = 0, squares = 0;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        a[i] = static_cast<State>(first[n].at[i]);
        b[i] = static_cast<State>(second[n].at[i]);
        sum += a[i] + b[i];
      }
      const State mean = sum_of_lanes<kLanes>(sum) / kDim;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        a[i] -= mean;
        b[i] -= mean;
        squares += a[i] * a[i] + b[i] * b[i];
      }
      const State scale = 1 / sqrt(sum_of_lanes<kLanes>(squares) / kDim + p.eps);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const State u = a[i] * scale * weight[0][i] + bias[0][i],
                    v = b[i] * scale * weight[1][i] + bias[1][i];
        a[i] = u * cosine[i] - v * sine[i];
        b[i] = v * cosine[i] + u * sine[i];
      }
      if (at >= p.heads) continue;
      store_values(a, data + at * kDim);
      store_values(b, data + at * kDim + kQuarter);
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
void launch(void* x, const NormRopeParams<State>& params, cudaStream_t stream) {
  constexpr int kWidth = 16 / sizeof(Value);
  if (params.tokens == 0) return;
  if (params.tokens > UINT32_MAX) throw std::invalid_argument("norm_rope: more tokens than 32 bits count");
  const auto blocks = static_cast<unsigned>((params.tokens + kWarpsPerBlock - 1) / kWarpsPerBlock);
  Value* values = static_cast<Value*>(x);
  const auto run = [&](auto kernel) {
    kernel<<<blocks, kWarpsPerBlock * 32, 0, stream>>>(values, params);
    check_launch("norm_rope");
  };
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0 && params.token_stride % kWidth == 0 && is_aligned(params)) {
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

void norm_rope_cuda(OperandType type, void* x, const NormRopeParams<float>& params, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case OperandType::bf16:
      return launch<__nv_bfloat16>(x, params, cuda_stream);
    case OperandType::fp16:
      return launch<__half>(x, params, cuda_stream);
    case OperandType::fp32:
      return launch<float>(x, params, cuda_stream);
  }
}

void norm_rope_cuda(void* x, const NormRopeParams<double>& params, void* stream) {
  launch<double>(x, params, static_cast<cudaStream_t>(stream));
}

}  // namespace vggt
