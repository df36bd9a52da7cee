#pragma once
// One attention call as every CUDA kernel of this room takes it, how its keys are cut into partitions, and
// where the states of the partitions lie. Without torch.

#include <cstdint>

#include "attention/cuda/cuda_plan.h"
#include "attention/params.h"
#include "attention/state.h"

namespace vggt {

/// QkParts (attention_types.h) of a call; null where they are to be made.
struct ReadyParts {
  void *q = nullptr, *k = nullptr;
  const float *bounds = nullptr, *largest = nullptr;
};

/// One call. Rows of q, k, v, out and w start at multiples of 16 bytes and hold `dim` elements, 64 or 128;
/// narrower heads are padded by the caller. With offsets: batch = 1, queries and keys are totals.
struct CudaProblem {
  CudaElement type = CudaElement::fp32;
  const void *q = nullptr, *k = nullptr, *v = nullptr;  // [B,A,Nq,D], [B,A,Nk,D], [B,A,Nk,D]
  AttentionStrides q_strides, k_strides, v_strides;     // in elements
  int batch = 0, heads = 0, queries = 0, keys = 0, dim = 0;
  float scale = 1;  // of the logits; not 0, may be negative

  const int *q_offsets = nullptr, *k_offsets = nullptr;  // on the device, [sequences + 1], or null
  int sequences = 0;                                     // batch where there are no offsets
  int longest_queries = 0, longest_keys = 0;             // of a sequence

  ReadyParts ready;  // of the whole call in fp32

  // Where not null, q, k and v are the parts of Note [Splitting] in split_parts.h: fp16, with an fp32 out.
  const float* largest = nullptr;  // [3,B·A] of |q|, |k| and |v|, or bounds of them; on the device

  // A head is computed where its mark is `mark`; null: all are.
  const int* marks = nullptr;  // [B·A], on the device
  int mark = 0;

  // Written are out, and lse where not null, or, where out is null, the state m, s, w. lse, m and s are
  // [B,A,Nq].
  void* out = nullptr;           // [B,A,Nq,D], type of q, with out_strides
  float* w = nullptr;            // [B,A,Nq,D], with out_strides
  AttentionStrides out_strides;  // in elements
  float *lse = nullptr, *m = nullptr, *s = nullptr;
  bool wants_largest = false;  // whether m has to be the largest logit: else any number near it will do

  int partitions = 1;          // of the keys: 1 to kMostPartitions
  float* workspace = nullptr;  // workspace_floats(*this), 16-byte aligned; null for one partition
};

// Kernels keep maxima in base 2, m2 = log2(e)·scale·(largest q·k): a difference of two is then the argument
// of exp2, and rounding m2 costs no accuracy, since sums are relative to it as it was rounded.
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

/// States of one partition: m2 and s [B·A·Nq], w [B·A·Nq,D], rows in the order of (batch, head, query).
struct PartitionState {
  float *m2, *s, *w;
};

VGGT_HOST_DEVICE int64_t state_rows(const CudaProblem& p) {
  return static_cast<int64_t>(p.batch) * p.heads * p.queries;
}

/// Floats of workspace for these partitions.
VGGT_HOST_DEVICE int64_t workspace_floats(const CudaProblem& p) {
  return p.partitions == 1 ? 0 : p.partitions * state_rows(p) * (p.dim + 2);
}

VGGT_HOST_DEVICE PartitionState partition_state(const CudaProblem& p, int partition) {
  const int64_t rows = state_rows(p), wide = rows * p.dim;
  float* numbers = p.workspace + p.partitions * wide;
  return {numbers + 2 * partition * rows, numbers + (2 * partition + 1) * rows,
          p.workspace + partition * wide};
}

struct KeyRange {
  int first, end;
};

/// The keys of one partition of a sequence with `keys` keys: whole tiles, divided evenly; may be empty.
VGGT_HOST_DEVICE KeyRange partition_keys(int keys, int tile, int partition, int partitions) {
  const int64_t tiles = (static_cast<int64_t>(keys) + tile - 1) / tile;
  const int64_t first = tiles * partition / partitions * tile,
                end = tiles * (partition + 1) / partitions * tile;
  return {static_cast<int>(first), static_cast<int>(end < keys ? end : keys)};
}

}  // namespace vggt
