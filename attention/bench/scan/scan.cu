// Prefix scans over states on a GPU. A state of 64 dims is scanned as 8 parts of 8 dims, each with its own m
// and s: a part fits into registers, does not depend on the others, and is one sector of memory.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <climits>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include "attention/bench/scan/scan_problem.h"
#include "attention/bench/scan/scan_steps.h"

namespace vggt {
namespace {

constexpr int kWide = 8, kParts = kScanDim / kWide, kThreads = 256;
using Part = SoftmaxState<float, kWide>;

struct Merge {
  VGGT_HOST_DEVICE Part operator()(const Part& a, const Part& b) const { return merge(a, b); }
};

/// The threads of a block as lanes, see Note [Lanes].
struct BlockLanes {
  template <class F>
  VGGT_HOST_DEVICE void each([[maybe_unused]] int n, [[maybe_unused]] F f) const {
#if defined(__CUDA_ARCH__)
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) f(i);
    __syncthreads();
#endif
  }
};

// A column is one (line, part). Item i of a column is the part of state i.

__device__ Part load(const float* m, const float* s, const float* w, const ScanProblem& p, int column,
                     int i) {
  const int64_t state = static_cast<int64_t>(column / kParts) * p.n + i;
  const float4* from = reinterpret_cast<const float4*>(w + state * kScanDim + column % kParts * kWide);
  const float4 low = from[0], high = from[1];
  Part x;
  x.m = m[state];
  x.s = s[state];
  x.w[0] = low.x, x.w[1] = low.y, x.w[2] = low.z, x.w[3] = low.w;
  x.w[4] = high.x, x.w[5] = high.y, x.w[6] = high.z, x.w[7] = high.w;
  return x;
}

__device__ Part input(const ScanProblem& p, int column, int i) {
  return load(p.m, p.s, p.w, p, column, i);
}

__device__ void store(const ScanProblem& p, int column, int i, const Part& x) {
  const int64_t state = static_cast<int64_t>(column / kParts) * p.n + i;
  float4* to = reinterpret_cast<float4*>(p.out_w + state * kScanDim + column % kParts * kWide);
  to[0] = make_float4(x.w[0], x.w[1], x.w[2], x.w[3]);
  to[1] = make_float4(x.w[4], x.w[5], x.w[6], x.w[7]);
  if (column % kParts != 0) return;
  p.out_m[state] = x.m;
  p.out_s[state] = x.s;
}

__host__ __device__ int columns(const ScanProblem& p) {
  return p.lines * kParts;
}
__host__ __device__ int blocks_in(const ScanProblem& p) {
  return (p.n + p.block - 1) / p.block;
}
/// Totals of a column: those of its blocks, filled up to a power of two.
__host__ __device__ int totals_in(const ScanProblem& p) {
  return power_of_two_from(blocks_in(p));
}

// ---- two levels: in a block, across blocks

template <int B>
struct HillisSteele {
  struct Shared {
    alignas(alignof(float4)) unsigned char bytes[2 * B * sizeof(Part)];
  };
  static __device__ Part scan(Shared& shared, const Part& x) {
    Part* states = reinterpret_cast<Part*>(shared.bytes);
    states[threadIdx.x] = x;
    __syncthreads();
    return hillis_steele(BlockLanes(), states, states + B, B)[threadIdx.x];
  }
};

template <int B>
struct CubBlock {
  using Shared = typename cub::BlockScan<Part, B>::TempStorage;
  static __device__ Part scan(Shared& shared, const Part& x) {
    Part prefix;
    cub::BlockScan<Part, B>(shared).InclusiveScan(x, prefix, Merge());
    return prefix;
  }
};

/// Writes the prefixes within each block to the output, and its total to totals [columns, totals_in()].
template <class InBlock>
__global__ void scan_blocks_kernel(const ScanProblem p, Part* totals) {
  __shared__ typename InBlock::Shared shared;
  const int column = static_cast<int>(blockIdx.x) % columns(p),
            block = static_cast<int>(blockIdx.x) / columns(p);
  const int i = block * p.block + static_cast<int>(threadIdx.x);
  const Part prefix = InBlock::scan(shared, i < p.n ? input(p, column, i) : Part());
  if (i < p.n) store(p, column, i, prefix);
  if (threadIdx.x + 1 == blockDim.x) totals[static_cast<int64_t>(column) * totals_in(p) + block] = prefix;
}

__global__ void __launch_bounds__(kThreads) sweep_totals_kernel(const ScanProblem p, Part* totals) {
  const int count = totals_in(p), used = blocks_in(p);
  Part* own = totals + static_cast<int64_t>(blockIdx.x) * count;
  BlockLanes().each(count - used, [=](int i) { own[used + i] = Part(); });
  blelloch(BlockLanes(), own, count);
}

/// All parts of a state are in one block, which reads m and s before it writes them.
__global__ void __launch_bounds__(kThreads) add_prefixes_kernel(const ScanProblem p, const Part* prefixes) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t state = item / kParts;
  const int column = static_cast<int>(state / p.n * kParts + item % kParts),
            i = static_cast<int>(state % p.n);
  const bool exists = state < static_cast<int64_t>(p.lines) * p.n;
  Part prefix;
  if (exists) {
    const Part before = prefixes[static_cast<int64_t>(column) * totals_in(p) + i / p.block];
    prefix = merge(before, load(p.out_m, p.out_s, p.out_w, p, column, i));
  }
  __syncthreads();
  if (exists) store(p, column, i, prefix);
}

unsigned grid_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

template <class InBlock>
cudaError_t scan_two_levels(const ScanProblem& p, void* workspace, cudaStream_t stream) {
  const int64_t blocks = static_cast<int64_t>(blocks_in(p)) * columns(p);
  const int64_t items = static_cast<int64_t>(p.lines) * p.n * kParts;
  if (blocks > INT_MAX || items / kThreads >= INT_MAX) return cudaErrorInvalidValue;
  Part* totals = static_cast<Part*>(workspace);
  scan_blocks_kernel<InBlock><<<static_cast<unsigned>(blocks), p.block, 0, stream>>>(p, totals);
  if (blocks_in(p) == 1) return cudaGetLastError();
  sweep_totals_kernel<<<columns(p), kThreads, 0, stream>>>(p, totals);
  add_prefixes_kernel<<<grid_for(items), kThreads, 0, stream>>>(p, totals);
  return cudaGetLastError();
}

template <template <int> class InBlock>
cudaError_t scan_two_levels(const ScanProblem& p, void* workspace, cudaStream_t stream) {
  if (p.block == 64) return scan_two_levels<InBlock<64>>(p, workspace, stream);
  if (p.block == 128) return scan_two_levels<InBlock<128>>(p, workspace, stream);
  if (p.block == 256) return scan_two_levels<InBlock<256>>(p, workspace, stream);
  return cudaErrorInvalidValue;
}

// ---- chunks: a thread goes through a chunk of a column

/// Merges get(i) for i in [0, n) onto `sum`, passes each prefix to put(i, prefix), and returns the total.
/// Several states are fetched at a time, so that loads do not wait for merges.
template <class Get, class Put>
__device__ Part walk(Part sum, int n, Get get, Put put) {
  constexpr int kAhead = 8;
  for (int first = 0; first < n; first += kAhead) {
    Part ahead[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j < n) ahead[j] = get(first + j);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      sum = merge(sum, ahead[j]);
      if (first + j < n) put(first + j, sum);
    }
  }
  return sum;
}

struct ChunkWork {
  int column, chunk;
  int first, count;  // states
};

/// The chunk of this thread; count is negative past the last chunk.
__device__ ChunkWork chunk_of_thread(const ScanProblem& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, pair = item / kParts;
  ChunkWork work;
  work.chunk = static_cast<int>(pair % blocks_in(p));
  work.column = static_cast<int>(pair / blocks_in(p) * kParts + item % kParts);
  work.first = work.chunk * p.block;
  work.count = work.column < columns(p) ? min(p.block, p.n - work.first) : -1;
  return work;
}

/// totals: [columns, chunks]
__global__ void __launch_bounds__(kThreads) chunk_totals_kernel(const ScanProblem p, Part* totals) {
  const ChunkWork work = chunk_of_thread(p);
  if (work.count < 0) return;
  totals[static_cast<int64_t>(work.column) * blocks_in(p) + work.chunk] = walk(
      Part(), work.count, [&](int i) { return input(p, work.column, work.first + i); },
      [](int, const Part&) {});
}

__global__ void __launch_bounds__(kThreads) carry_totals_kernel(const ScanProblem p, Part* totals) {
  const int column = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (column >= columns(p)) return;
  Part* own = totals + static_cast<int64_t>(column) * blocks_in(p);
  walk(
      Part(), blocks_in(p), [=](int i) { return own[i]; }, [=](int i, const Part& sum) { own[i] = sum; });
}

__global__ void __launch_bounds__(kThreads) scan_chunks_kernel(const ScanProblem p, const Part* totals) {
  const ChunkWork work = chunk_of_thread(p);
  if (work.count < 0) return;
  const int64_t before = static_cast<int64_t>(work.column) * blocks_in(p) + work.chunk - 1;
  walk(
      work.chunk == 0 ? Part() : totals[before], work.count,
      [&](int i) { return input(p, work.column, work.first + i); },
      [&](int i, const Part& sum) { store(p, work.column, work.first + i, sum); });
}

cudaError_t scan_chunks(const ScanProblem& p, void* workspace, cudaStream_t stream) {
  const int64_t items = static_cast<int64_t>(blocks_in(p)) * columns(p);
  if (items > INT_MAX) return cudaErrorInvalidValue;
  Part* totals = static_cast<Part*>(workspace);
  chunk_totals_kernel<<<grid_for(items), kThreads, 0, stream>>>(p, totals);
  carry_totals_kernel<<<grid_for(columns(p)), kThreads, 0, stream>>>(p, totals);
  scan_chunks_kernel<<<grid_for(items), kThreads, 0, stream>>>(p, totals);
  return cudaGetLastError();
}

// ---- CUB's scan of a whole device: the columns one after another, each a segment

struct Column {
  int n;
  VGGT_HOST_DEVICE int operator()(int64_t item) const { return static_cast<int>(item / n); }
};
struct Input {
  ScanProblem p;
  __device__ Part operator()(int64_t item) const {
    return input(p, static_cast<int>(item / p.n), static_cast<int>(item % p.n));
  }
};
struct Output {
  ScanProblem p;
  __device__ void operator()(int64_t item, const Part& x) const {
    store(p, static_cast<int>(item / p.n), static_cast<int>(item % p.n), x);
  }
};

/// With a null workspace it only sets `bytes`.
cudaError_t scan_with_cub(const ScanProblem& p, void* workspace, size_t& bytes, cudaStream_t stream) {
  const int64_t items = static_cast<int64_t>(columns(p)) * p.n;
  if (items > INT_MAX) return cudaErrorInvalidValue;
  const thrust::counting_iterator<int64_t> item(0);
  return cub::DeviceScan::InclusiveScanByKey(
      workspace, bytes, thrust::make_transform_iterator(item, Column{p.n}),
      thrust::make_transform_iterator(item, Input{p}), thrust::make_tabulate_output_iterator(Output{p}),
      Merge(), static_cast<int>(items), ::cuda::std::equal_to<>(), stream);
}

}  // namespace

int64_t scan_workspace_bytes(ScanForm form, const ScanProblem& p) {
  if (p.n < 1 || p.lines < 1 || p.block < 1 || p.lines > INT_MAX / kParts) return 0;
  const int64_t part = sizeof(Part), all = columns(p);
  if (form == ScanForm::chunked) return part * all * blocks_in(p);
  if (form != ScanForm::cub_device) return part * all * totals_in(p);
  size_t bytes = 0;
  return scan_with_cub(p, nullptr, bytes, nullptr) == cudaSuccess ? static_cast<int64_t>(bytes) : 0;
}

cudaError_t launch_scan(ScanForm form, const ScanProblem& p, void* workspace, int64_t bytes,
                        cudaStream_t stream) {
  size_t size = static_cast<size_t>(bytes);
  if (bytes == 0) return cudaErrorInvalidValue;
  switch (form) {
    case ScanForm::two_level:
      return scan_two_levels<HillisSteele>(p, workspace, stream);
    case ScanForm::cub_block:
      return scan_two_levels<CubBlock>(p, workspace, stream);
    case ScanForm::chunked:
      return scan_chunks(p, workspace, stream);
    case ScanForm::cub_device:
      return scan_with_cub(p, workspace, size, stream);
    default:
      return cudaErrorNotSupported;
  }
}

}  // namespace vggt
