#pragma once
// What the blocks of every CUDA kernel have in common: the queries and keys that a block takes, and the
// memory that its results go to.

#include "attention/cuda/cuda_problem.h"

namespace vggt {

/// A block's share of a call. Queries and keys are numbered from the beginning of the tensors.
struct BlockWork {
  int batch, head, partition;
  int first_query, queries;  // at most the tile's
  int first_key, keys;       // may be 0
};

/// Blocks of a call: query tiles run fastest, so that blocks at work together share keys; then partitions,
/// heads and sequences.
inline int64_t blocks_of(const CudaProblem& p, int query_tile) {
  const int64_t tiles = (static_cast<int64_t>(p.longest_queries) + query_tile - 1) / query_tile;
  return tiles * p.partitions * p.heads * p.sequences;
}

/// Index of a head in marks and in largest.
__device__ inline int head_row(const CudaProblem& p, const BlockWork& work) {
  return work.batch * p.heads + work.head;
}

/// The share of block number `index` of blocks_of(). It has no queries where its sequence is shorter than the
/// longest, or where its head is left out.
__device__ inline BlockWork work_of_block(const CudaProblem& p, const CudaTile& tile, unsigned index) {
  const unsigned tiles = (p.longest_queries + tile.queries - 1u) / tile.queries;
  const int block = index % tiles;
  index /= tiles;
  BlockWork work;
  work.partition = index % p.partitions;
  index /= p.partitions;
  work.head = index % p.heads;
  const int sequence = index / p.heads;
  work.batch = p.q_offsets ? 0 : sequence;
  const int q_first = p.q_offsets ? p.q_offsets[sequence] : 0;
  const int q_end = p.q_offsets ? p.q_offsets[sequence + 1] : p.queries;
  const int k_first = p.k_offsets ? p.k_offsets[sequence] : 0;
  const int k_end = p.k_offsets ? p.k_offsets[sequence + 1] : p.keys;
  work.first_query = q_first + block * tile.queries;
  work.queries = max(0, min(tile.queries, q_end - work.first_query));
  if (p.marks && p.marks[head_row(p, work)] != p.mark) work.queries = 0;
  const KeyRange range = partition_keys(k_end - k_first, tile.keys, work.partition, p.partitions);
  work.first_key = k_first + range.first;
  work.keys = range.end - range.first;
  return work;
}

/// Index of a row in lse, m, s and in the workspace.
__device__ inline int64_t line_of(const CudaProblem& p, const BlockWork& work, int row) {
  return static_cast<int64_t>(head_row(p, work)) * p.queries + work.first_query + row;
}

/// The memory for a row's fp32 numbers [D]: W of the partition or of the state, or an fp32 output.
__device__ inline float* wide_row(const CudaProblem& p, const BlockWork& work, int row) {
  if (p.partitions > 1) return partition_state(p, work.partition).w + line_of(p, work, row) * p.dim;
  float* base = p.out ? static_cast<float*>(p.out) : p.w;
  return base + work.batch * p.out_strides.batch + work.head * p.out_strides.head +
         (work.first_query + row) * p.out_strides.token;
}

/// The factor that turns W of a row with this sum into the output; 1 where W itself is wanted.
__device__ inline float wide_factor(const CudaProblem& p, float s) {
  return p.partitions == 1 && p.out ? normaliser(s) : 1.0f;
}

/// Writes m2 and s of a finished row, or its lse, as p wants.
__device__ inline void write_numbers(const CudaProblem& p, const BlockWork& work, int row, float m2,
                                     float s) {
  const int64_t line = line_of(p, work, row);
  if (p.partitions > 1) {
    const PartitionState state = partition_state(p, work.partition);
    state.m2[line] = m2;
    state.s[line] = s;
  } else if (!p.out) {
    p.m[line] = kLn2 * m2;
    p.s[line] = s;
  } else if (p.lse) {
    p.lse[line] = log_sum_exp(kLn2 * m2, s);
  }
}

}  // namespace vggt
