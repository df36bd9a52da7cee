#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

#include "model/layers/rope_params.h"

namespace vggt {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr unsigned kAllLanes = 0xffffffffu;

template <typename State>
__device__ State warp_sum(State x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}

struct Place {
  int64_t row, column;
};

template <typename State>
__device__ Place place_of(int64_t token, const NormRopeParams<State>& p) {
  const int64_t patch = token % p.tokens_per_frame - p.special_tokens;
  if (patch < 0) return {0, 0};
  return {patch / p.columns + 1, patch % p.columns + 1};
}

/// One warp per q or k vector. Lane l holds elements [l·Width, (l+1)·Width) of D = 32·Width: a quarter of the
/// head is then 8 lanes, and the partner of every element in the rotation sits 8 lanes away.
template <typename Value, typename State, int Width>
__global__ void __launch_bounds__(kWarpsPerBlock * 32)
    norm_rope_kernel(Value* __restrict__ x_of, const NormRopeParams<State> p) {
  const int64_t vectors = p.tokens * p.heads;
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
  if (vector >= vectors) return;
  const int lane = threadIdx.x % 32;
  const int64_t head = vector % p.heads, token = vector / p.heads;
  Value* data = x_of + token * p.token_stride + head * p.head_dim + lane * Width;

  State x[Width], sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < Width; ++i) sum += x[i] = static_cast<State>(data[i]);
  const State mean = warp_sum(sum) / p.head_dim;
#pragma unroll
  for (int i = 0; i < Width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const State scale = 1 / sqrt(warp_sum(squares) / p.head_dim + p.eps);
  const State* weight = p.weight + lane * Width;
  const State* bias = p.bias + lane * Width;

  const Place place = place_of(token, p);
  const int64_t position = lane < 16 ? place.row : place.column;
  const int64_t angles = position * (p.head_dim / 4) + (lane % 8) * Width;
  const State sign = lane % 16 < 8 ? State(-1) : State(1);
#pragma unroll
  for (int i = 0; i < Width; ++i) {
    const State y = (x[i] - mean) * scale * weight[i] + bias[i];
    const State partner = __shfl_xor_sync(kAllLanes, y, 8);
    data[i] = static_cast<Value>(y * p.cosine[angles + i] + sign * partner * p.sine[angles + i]);
  }
}

/// Any other head dim (only tiny models have one): one thread per vector.
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
  const Place place = place_of(token, p);
  for (int64_t i = 0; i < 2 * quarter; ++i) {
    const int64_t half = i / quarter, j = i % quarter, a = half * 2 * quarter + j, b = a + quarter;
    const int64_t angle = (half == 0 ? place.row : place.column) * quarter + j;
    const State x = (static_cast<State>(data[a]) - mean) * scale * weight[a] + bias[a];
    const State y = (static_cast<State>(data[b]) - mean) * scale * weight[b] + bias[b];
    data[a] = static_cast<Value>(x * p.cosine[angle] - y * p.sine[angle]);
    data[b] = static_cast<Value>(y * p.cosine[angle] + x * p.sine[angle]);
  }
}

template <typename Value, typename State>
void launch(void* x, const NormRopeParams<State>& params, cudaStream_t stream) {
  const int64_t vectors = params.tokens * params.heads;
  if (vectors == 0) return;
  const auto blocks = static_cast<unsigned>((vectors + kWarpsPerBlock - 1) / kWarpsPerBlock);
  Value* values = static_cast<Value*>(x);
  switch (params.head_dim) {
    case 32:
      norm_rope_kernel<Value, State, 1><<<blocks, kWarpsPerBlock * 32, 0, stream>>>(values, params);
      break;
    case 64:
      norm_rope_kernel<Value, State, 2><<<blocks, kWarpsPerBlock * 32, 0, stream>>>(values, params);
      break;
    case 128:
      norm_rope_kernel<Value, State, 4><<<blocks, kWarpsPerBlock * 32, 0, stream>>>(values, params);
      break;
    default:
      norm_rope_any_dim_kernel<Value, State>
          <<<static_cast<unsigned>((vectors + 127) / 128), 128, 0, stream>>>(values, params);
  }
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string("norm_rope: ") + cudaGetErrorString(error));
}

}  // namespace

void norm_rope_cuda(NormRopeType type, void* x, const NormRopeParams<float>& params, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case NormRopeType::bf16:
      return launch<__nv_bfloat16>(x, params, cuda_stream);
    case NormRopeType::fp16:
      return launch<__half>(x, params, cuda_stream);
    case NormRopeType::fp32:
      return launch<float>(x, params, cuda_stream);
  }
}

void norm_rope_cuda(void* x, const NormRopeParams<double>& params, void* stream) {
  launch<double>(x, params, static_cast<cudaStream_t>(stream));
}

}  // namespace vggt
