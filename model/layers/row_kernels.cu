#include <type_traits>

#include "model/layers/row_kernels.h"
#include "model/layers/row_values.cuh"
#include "model/layers/split_store.cuh"

namespace vggt {
namespace {

constexpr int kThreads = 128;  // of a block
constexpr int kGeluThreads = 256;
constexpr int kWarpsOfBlock = kThreads / 32;
constexpr int kUnits = 8;                 // fours that a thread keeps in registers
constexpr int kOfWarp = 32 * 4 * kUnits;  // columns
constexpr float kTiny = 1e-12f;           // a token of zeros stays one

/// Over the kWarps neighbouring warps that share a row. of_warp: memory of this sum alone.
template <int kWarps>
__device__ __forceinline__ float sum_of_row(float x, float* of_warp) {
  x = sum_of_lanes<32>(x);
  if constexpr (kWarps > 1) {
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) of_warp[warp] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) x += of_warp[warp / kWarps * kWarps + i];
  }
  return x;
}

/// What a thread has of a row: fours, each kWarps·32 fours from the next.
template <int kWarps>
struct RowPart {
  static constexpr int kOfRow = 32 * kWarps;  // threads

  int columns;
  bool exists;  // whether there is such a row; all threads must reach the barriers
  float x[kUnits][4];

  __device__ __forceinline__ int column(int unit) const { return 4 * (threadIdx.x % kOfRow + unit * kOfRow); }
  __device__ __forceinline__ bool has(int unit) const { return exists && column(unit) < columns; }

  __device__ __forceinline__ void load(const float* row) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[u][i] = 0;
      if (has(u)) load_values(row + column(u), x[u]);
    }
  }

  template <typename Value>
  __device__ __forceinline__ void add(const Value* added, const float* gamma, float* row) {
    float more[kUnits][4];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (has(u)) load_values(added + column(u), more[u]);
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!has(u)) continue;
      float scale[4];
      load_values(gamma + column(u), scale);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[u][i] += scale[i] * more[u][i];
      store_values(x[u], row + column(u));
    }
  }

  template <typename Term>
  __device__ __forceinline__ float sum(const Term& term, float* of_warp) const {
    float sum = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!has(u)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += term(x[u][i]);
    }
    return sum_of_row<kWarps>(sum, of_warp);
  }

  __device__ __forceinline__ void normalise(const float* weight, const float* bias, float eps,
                                            float (*of_warp)[kWarpsOfBlock]) {
    const float mean = sum([](float v) { return v; }, of_warp[0]) / columns;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[u][i] -= mean;
    }
    // What the rounded mean leaves: it counts where a row's mean is large beside its spread.
    const float rest = sum([](float v) { return v; }, of_warp[1]) / columns;
    const float variance = sum([](float v) { return v * v; }, of_warp[2]) / columns - rest * rest;
    const float scale = 1 / sqrtf(variance + eps), shift = -rest * scale;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!has(u)) continue;
      float w[4], b[4];
      load_values(weight + column(u), w);
      load_values(bias + column(u), b);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[u][i] = (x[u][i] * scale + shift) * w[i] + b[i];
    }
  }

  template <typename Value>
  __device__ __forceinline__ void store(float factor, Value* row) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!has(u)) continue;
      float y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) y[i] = x[u][i] * factor;
      store_values(y, row + column(u));
    }
  }

  /// As split_rows() stores a row.
  __device__ __forceinline__ void store_split(const SplitMatrix& to, int64_t row) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ uint32_t of_warp[kWarpsOfBlock];
    uint32_t most = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (has(u)) most = max(most, largest_bits(x[u]));
    }
    const int exponent = row_exponent(largest_of_row<kWarps>(most, of_warp));
    if (!exists) return;
    if (threadIdx.x % kOfRow == 0) to.exponents[row] = exponent;
    const float up = row_factor(exponent);
    const int width = static_cast<int>(split_width(columns));
    __half* out = static_cast<__half*>(to.parts) + row * width;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      // The last columns of the parts are beyond the row's.
      if (column(u) < width / 2) store_parts(x[u], has(u) ? up : 0, out + split_column(column(u)));
    }
#else
    __trap();  // parts are only where sm90a_built()
#endif
  }
};

/// What a row's normalised numbers are stored as.
template <typename Value>
struct AsValues {
  template <int kWarps>
  __device__ static void store(const RowPart<kWarps>& part, float factor, const RowPass& p, int64_t row) {
    part.store(factor, static_cast<Value*>(p.y) + row * p.columns);
  }
};
struct AsParts {
  template <int kWarps>
  __device__ static void store(const RowPart<kWarps>& part, float, const RowPass& p, int64_t row) {
    part.store_split(p.parts, row);
  }
};

template <typename Value, typename Stored, int kWarps, bool kAdd, RowNorm kNorm>
__global__ void __launch_bounds__(kThreads) row_pass_kernel(const RowPass p) {
  __shared__ float of_warp[4][kWarpsOfBlock];
  const int64_t row = int64_t{blockIdx.x} * (kWarpsOfBlock / kWarps) + threadIdx.x / (32 * kWarps);
  RowPart<kWarps> part{p.columns, row < p.rows};
  const int64_t from = part.exists && p.row_of != nullptr ? p.row_of[row] : row;
  part.load(p.x + (kAdd ? row : from) * p.columns);
  if constexpr (kAdd) {
    part.add(static_cast<const Value*>(p.added) + from * p.columns, p.gamma, p.sum + row * p.columns);
  }
  if constexpr (kNorm != RowNorm::none) {
    part.normalise(p.weight, p.bias, p.eps, of_warp);
    float factor = 1;
    if constexpr (kNorm == RowNorm::unit)
      factor = 1 / fmaxf(sqrtf(part.sum([](float v) { return v * v; }, of_warp[3])), kTiny);
    Stored::store(part, factor, p, row);
  }
}

template <typename Value, int kWarps>
void launch_width(RowNorm norm, const RowPass& p, cudaStream_t stream) {
  constexpr int kRows = kWarpsOfBlock / kWarps;
  const auto blocks = static_cast<unsigned>((p.rows + kRows - 1) / kRows);
  using As = AsValues<Value>;
  auto kernel = p.added == nullptr
                    ? (norm == RowNorm::unit ? row_pass_kernel<Value, As, kWarps, false, RowNorm::unit>
                                             : row_pass_kernel<Value, As, kWarps, false, RowNorm::layer>)
                    : (norm == RowNorm::none ? row_pass_kernel<Value, As, kWarps, true, RowNorm::none>
                                             : row_pass_kernel<Value, As, kWarps, true, RowNorm::layer>);
  if (p.parts.parts != nullptr) {
    if constexpr (std::is_same_v<Value, float>) {
      kernel = p.added == nullptr ? row_pass_kernel<float, AsParts, kWarps, false, RowNorm::layer>
                                  : row_pass_kernel<float, AsParts, kWarps, true, RowNorm::layer>;
    }
  }
  kernel<<<blocks, kThreads, 0, stream>>>(p);
  check_launch("row pass");
}

template <typename Value>
void launch(RowNorm norm, const RowPass& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  if (p.columns <= kOfWarp) return launch_width<Value, 1>(norm, p, stream);
  launch_width<Value, kMostRowColumns / kOfWarp>(norm, p, stream);
}

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// x·Φ(x) = max(x, 0) - |x|·Φ(-|x|), where log2 Φ(-z) is a polynomial of z, fitted for z in [0, 6]: Φ(-z) has
/// a relative error of at most 8e-6 there, and beyond there is nothing left of it. erff() takes twice as
/// long, and 1 + erff() has no such tail. An infinity must not meet Φ(-z) = 0 in a product.
__device__ __forceinline__ float gelu(float x) {
  const float z = fabsf(x);
  float log2_tail = -1.8348125649936264e-06f;
  log2_tail = fmaf(log2_tail, z, 6.15983153693378e-05f);
  log2_tail = fmaf(log2_tail, z, -0.0009305250132456422f);
  log2_tail = fmaf(log2_tail, z, 0.008507891558110714f);
  log2_tail = fmaf(log2_tail, z, -0.05396007001399994f);
  log2_tail = fmaf(log2_tail, z, -0.4584643840789795f);
  log2_tail = fmaf(log2_tail, z, -1.1512510776519775f);
  log2_tail = fmaf(log2_tail, z, -0.9999952912330627f);
  return fmaf(-fminf(z, 1e30f), power_of_two(log2_tail), fmaxf(x, 0.0f));
}

template <typename Value>
__global__ void __launch_bounds__(kGeluThreads) gelu_kernel(Value* x, int64_t groups) {
  constexpr int kGroup = 16 / sizeof(Value);
  const int64_t group = int64_t{blockIdx.x} * kGeluThreads + threadIdx.x;
  if (group >= groups) return;
  float values[kGroup];
  load_values(x + group * kGroup, values);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = gelu(values[i]);
  store_values(values, x + group * kGroup);
}

template <typename Value>
void launch_gelu(void* x, int64_t count, cudaStream_t stream) {
  const int64_t groups = count / (16 / static_cast<int64_t>(sizeof(Value)));
  if (groups == 0) return;
  gelu_kernel<<<static_cast<unsigned>((groups + kGeluThreads - 1) / kGeluThreads), kGeluThreads, 0, stream>>>(
      static_cast<Value*>(x), groups);
  check_launch("GELU");
}

}  // namespace

void row_pass_cuda(OperandType type, RowNorm norm, const RowPass& pass, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  switch (type) {
    case OperandType::fp32:
      return launch<float>(norm, pass, cuda_stream);
    case OperandType::bf16:
      return launch<__nv_bfloat16>(norm, pass, cuda_stream);
    case OperandType::fp16:
      return launch<__half>(norm, pass, cuda_stream);
  }
}

void gelu_cuda(OperandType type, void* x, int64_t count, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (type == OperandType::bf16) return launch_gelu<__nv_bfloat16>(x, count, cuda_stream);
  if (type == OperandType::fp16) return launch_gelu<__half>(x, count, cuda_stream);
  throw std::invalid_argument("GELU: bf16 and fp16 alone");
}

}  // namespace vggt
