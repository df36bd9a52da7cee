// The product of joined rows of bf16 or fp16 on Hopper: the producer takes each chain's columns from the
// matrix where they lie.
#include <algorithm>

#include "model/layers/gemm_launch.h"
#include "model/layers/half_gemm_block.cuh"
#include "model/layers/joined_gemm.h"

namespace vggt {
namespace half_gemm {

static_assert(kChain == kJoinedColumns);

struct JoinedMaps {
  CUtensorMap parts[kMostJoined], weight;
  int end_chains[kMostJoined];  // of the parts
};

__device__ inline void produce_joined(const JoinedMaps& maps, Walk<kBlocks> walk, int chains, HalfRing ring) {
  const int share = walk.rank * kTileRows;
  for (; !walk.done(); walk.advance()) {
    const int row = walk.row_tile * kTileRows, of_weight = walk.column_tile * kColumns + share;
    int part = 0, first = 0;  // chain of the part
#pragma unroll 1
    for (int chain = 0; chain < chains; ++chain) {
      if (chain == maps.end_chains[part]) {
        first = chain;
        ++part;
      }
      wait(ring.free(ring.slot), ring.phase ^ 1);
      const uint32_t full = ring.full(ring.slot);
      arrive_expecting(full, HalfRing::kSlotBytes);
      load_box(ring.x(), &maps.parts[part], full, (chain - first) * kChain, row, 0, 0);
      load_box_to((1 << kBlocks) - 1, ring.weight() + share * kRowBytes, &maps.weight, full, chain * kChain,
                  of_weight);
      ring.advance();
    }
  }
}

__device__ inline uint32_t rounded(float2 x, __nv_bfloat162) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(x);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ inline uint32_t rounded(float2 x, __half2) {
  const __half2 pair = __float22half2_rn(x);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ inline float2 floats_of(__nv_bfloat162 x) {
  return __bfloat1622float2(x);
}
__device__ inline float2 floats_of(__half2 x) {
  return __half22float2(x);
}

/// Of four neighbouring lanes, lane q gives its numbers 0 to 3 and gets number q of all four.
__device__ inline uint4 transposed_in_four(uint32_t (&x)[4]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if ((k & bit) != 0) continue;
      const uint32_t given = __shfl_xor_sync(~0u, upper ? x[k] : x[k + bit], bit);
      (upper ? x[k] : x[k + bit]) = given;
    }
  }
  return {x[0], x[1], x[2], x[3]};
}

/// Adds the bias to a tile's sums and writes them, eight outputs of a row at once.
template <class Pair>
struct WriteHalf {
  const Pair* bias;
  Pair* out;
  int rows, columns;

  __device__ __forceinline__ void operator()(const float (&sums)[kSums], const Walk<kBlocks>& walk,
                                             int group) const {
    const int thread = threadIdx.x % kGroupThreads, lane = threadIdx.x % 4;
    const int row = walk.row_tile * kTileRows + group * kGroupRows + fragment_row(thread, 0),
              first = walk.column_tile * kColumns;
#pragma unroll
    for (int eights = 0; eights < kColumns / 32; ++eights) {
      const int column = first + 32 * eights;
      float2 biases[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = column + 8 * i + 2 * lane;
        biases[i] = at < columns ? floats_of(__ldg(bias + at / 2)) : float2{};
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* of = sums + 4 * (4 * eights + i) + 2 * j;
          pairs[i] = rounded({of[0] + biases[i].x, of[1] + biases[i].y}, Pair());
        }
        const uint4 eight = transposed_in_four(pairs);
        const int to = column + 8 * lane;
        if (row + 8 * j < rows && to < columns)
          *reinterpret_cast<uint4*>(out + (int64_t{row + 8 * j} * columns + to) / 2) = eight;
      }
    }
  }
};

}  // namespace half_gemm

namespace {

using namespace half_gemm;

template <class T, class Pair>
__global__ void __launch_bounds__(kThreads, 1)
    joined_gemm_kernel(const __grid_constant__ JoinedMaps maps, const GemmWork work, int chains,
                       const WriteHalf<Pair> write) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const HalfRing ring(memory);
  run_block<kBlocks>(
      ring, [&] { produce_joined(maps, Walk<kBlocks>(work), chains, ring); },
      [&] {
        WriteHalf<Pair> output = write;
        consume<T>(Walk<kBlocks>(work), chains, ring, output);
      });
#else
  __trap();  // callers ask for this kernel only where sm90a_built()
#endif
}

template <class T, class Pair>
cudaError_t launch(const JoinedGemm& gemm, cudaStream_t stream) {
  const JoinedRows& x = gemm.x;
  if (x.parts < 1 || x.parts > kMostJoined || gemm.outputs % 8 != 0) return cudaErrorInvalidValue;
  const int columns = x.begins[x.parts];
  JoinedMaps maps{};
  cudaError_t error = map_rows<T>(maps.weight, {gemm.weight, gemm.outputs, columns});
  for (int part = 0; part < x.parts && error == cudaSuccess; ++part) {
    const int own = x.begins[part + 1] - x.begins[part];
    if (own <= 0 || own % kChain != 0) return cudaErrorInvalidValue;
    error = map_rows<T>(maps.parts[part], {x.data[part], x.rows, own});
    maps.end_chains[part] = x.begins[part + 1] / kChain;
  }
  if (error != cudaSuccess) return error;
  const GemmWork work =
      tile_by_tile(divide_up(x.rows, kBlocks * kTileRows), divide_up(gemm.outputs, kColumns));
  if (work.items() == 0) return cudaErrorInvalidValue;
  const auto kernel = joined_gemm_kernel<T, Pair>;
  ClusterGrid<kBlocks, decltype(kernel)> grid(kernel, HalfRing::kSharedBytes, stream);
  int clusters = 0;
  error = grid.count(clusters);
  if (error != cudaSuccess) return error;
  const WriteHalf<Pair> write{static_cast<const Pair*>(gemm.bias), static_cast<Pair*>(gemm.out), x.rows,
                              gemm.outputs};
  return grid.launch(std::min(work.items(), clusters), maps, work, chains_of(columns), write);
}

}  // namespace

cudaError_t joined_gemm_sm90(const JoinedGemm& gemm, cudaStream_t stream) {
  return gemm.bf16 ? launch<__nv_bfloat16, __nv_bfloat162>(gemm, stream)
                   : launch<__half, __half2>(gemm, stream);
}

}  // namespace vggt
