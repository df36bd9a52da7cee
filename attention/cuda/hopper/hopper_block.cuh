#pragma once
// The blocks of the Hopper kernels: their shape, their shared memory, and their share of the work.

#include "attention/cuda/cuda_block.cuh"
#include "attention/cuda/hopper/hopper.cuh"

namespace vggt::hopper {

constexpr int kGroupQueries = 64;  // rows of one wgmma
constexpr int kGroupThreads = 128;

/// The shape of a block. kParts: matrices of 16-bit numbers that make up a tile, one behind the other.
/// kSlots: buffers of one tile of keys or of values.
template <int kDim_, int kParts_, int kGroups_, int kKeys_, int kSlots_, bool kTurns_ = true>
struct Shape {
  static constexpr int kDim = kDim_, kParts = kParts_, kGroups = kGroups_, kKeys = kKeys_, kSlots = kSlots_;
  static constexpr bool kTurns = kTurns_;
  // At the largest logits of every tile: no registers are left for Note [Unseen maximum].
  static constexpr bool kLooks = kParts > 1 && kDim > 64;
  static constexpr int kQueries = kGroups * kGroupQueries, kThreads = (kGroups + 1) * kGroupThreads;
  static constexpr int kQueryPart = kGroupQueries * kDim * 2, kKeyPart = kKeys * kDim * 2;  // bytes
  static constexpr int kQueryBytes = kParts * kQueryPart, kSlotBytes = kParts * kKeyPart;
  static constexpr int kBarriers = 2 * (kGroups + kSlots);
  static constexpr int kSharedBytes =
      kSwizzleBytes + kGroups * kQueryBytes + kSlots * kSlotBytes + kBarriers * 8;
  // A block starts with equally many registers for each thread, 65536 at most, and then shares them out anew.
  static constexpr int kProducerRegisters = kGroups == 3 ? 32 : 24;
  static constexpr int kConsumerRegisters = kGroups == 3 ? 160 : 240;
};

/// Addresses in shared memory.
template <class S>
struct Layout {
  uint32_t base;

  __device__ uint32_t queries(int group) const { return base + group * S::kQueryBytes; }
  __device__ uint32_t slot(int i) const { return base + S::kGroups * S::kQueryBytes + i * S::kSlotBytes; }
  __device__ uint32_t barriers() const { return slot(S::kSlots); }
  __device__ uint32_t queries_full(int group) const { return barriers() + 8 * group; }
  __device__ uint32_t queries_free(int group) const { return barriers() + 8 * (S::kGroups + group); }
  __device__ uint32_t slot_full(int i) const { return barriers() + 8 * (2 * S::kGroups + i); }
  __device__ uint32_t slot_free(int i) const { return barriers() + 8 * (2 * S::kGroups + S::kSlots + i); }
};

/// A position in the ring of slots, and the parity of its barriers' phase.
template <class S>
struct Ring {
  int slot = 0;
  uint32_t phase = 0;

  __device__ void advance() {
    if (++slot == S::kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

template <class S>
__device__ __forceinline__ BlockWork work_of_item(const CudaProblem& p, int item) {
  return work_of_block(p, {S::kQueries, S::kKeys}, item);
}

template <class S>
__device__ __forceinline__ int key_tiles(const BlockWork& work) {
  return (work.keys + S::kKeys - 1) / S::kKeys;
}

}  // namespace vggt::hopper
