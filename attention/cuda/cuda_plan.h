#pragma once
// Which kernel computes an attention call on a GPU, and how the call is cut up: pure functions, without
// torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/variant.h"

namespace vggt {

enum class CudaElement { fp32, bf16, fp16 };
constexpr const char* kElementNames[] = {"fp32", "bf16", "fp16"};

/// The head dim of the kernels that compute this one, up to 128.
constexpr int64_t kernel_dim(int64_t dim) {
  return dim <= 64 ? 64 : 128;
}

struct CudaDevice {
  int capability = 0;  // major·10 + minor
  int multiprocessors = 0;
  int64_t shared_per_block = 0, shared_per_multiprocessor = 0;  // bytes of shared memory
  // It has Ampere's and Hopper's matrix instructions, and this build has code for it that uses them.
  bool mma = false, wgmma = false;
};

/// What a plan depends on besides the device.
struct CudaSizes {
  int64_t rows = 0;               // sequences × heads
  int64_t queries = 0, keys = 0;  // of the longest sequence
  int64_t dim = 0;
};

/// Queries of a block, and keys that it takes at a time.
struct CudaTile {
  int queries = 0, keys = 0;
  bool operator==(const CudaTile&) const = default;
};

/// variant: never automatic. tile and partitions mean nothing to sdpa.
struct CudaPlan {
  AttentionVariant variant = AttentionVariant::sdpa;
  CudaTile tile;
  int partitions = 1;  // of the keys, merged by a second kernel
  bool operator==(const CudaPlan&) const = default;
};

constexpr int kMostPartitions = 32;

/// Why this variant cannot compute attention of this type and head dim on this device; empty where it can.
std::string variant_refusal(AttentionVariant variant, CudaElement type, int64_t dim,
                            const CudaDevice& device);

/// The plan for a variant that is not refused.
CudaPlan choose_cuda_plan(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                          const CudaDevice& device);

/// What is worth measuring beside `plan`, which comes first: other numbers of partitions, and the other tiles
/// that the variant's kernels have. None for sdpa.
std::vector<CudaPlan> alternative_plans(const CudaPlan& plan, const CudaSizes& sizes,
                                        const CudaDevice& device);

/// A plan that was measured for other sizes of its class, with no more partitions than these sizes allow;
/// nothing where the variant has no such tile here.
std::optional<CudaPlan> fitted_plan(const CudaPlan& plan, const CudaSizes& sizes, const CudaDevice& device);

}  // namespace vggt
