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

/// The head dim of the kernels for this head dim, which is at most 128.
constexpr int64_t kernel_dim(int64_t dim) {
  return dim <= 64 ? 64 : 128;
}

struct CudaDevice {
  int capability = 0;  // major·10 + minor
  int multiprocessors = 0;
  int64_t shared_per_block = 0, shared_per_multiprocessor = 0;  // bytes of shared memory
  // This build has code that runs here: of strict, and with Ampere's and Hopper's matrix instructions.
  bool strict = false, mma = false, wgmma = false;
};

/// The sizes of a call, which its plan depends on besides the device.
struct CudaSizes {
  int64_t rows = 0;               // sequences × heads
  int64_t queries = 0, keys = 0;  // of the longest sequence
  int64_t dim = 0;
};

/// Queries of a block, and keys that the block takes at a time.
struct CudaTile {
  int queries = 0, keys = 0;
  bool operator==(const CudaTile&) const = default;
};

/// A variant's kernel for a generation of GPUs, or one of LibTorch's (sdpa).
enum class CudaKernel {
  sdpa_efficient,
  sdpa_flash,
  sdpa_cudnn,
  strict,
  half_sm80,
  half_sm90,
  split_sm80,
  split_sm90,
  turbo_sm80,
  turbo_sm90
};
constexpr const char* kKernelNames[] = {"sdpa_efficient", "sdpa_flash", "sdpa_cudnn", "strict",
                                        "half_sm80",      "half_sm90",  "split_sm80", "split_sm90",
                                        "turbo_sm80",     "turbo_sm90"};

constexpr const char* kernel_name(CudaKernel kernel) {
  return kKernelNames[static_cast<int>(kernel)];
}

/// The variant that a kernel computes.
constexpr AttentionVariant variant_of(CudaKernel kernel) {
  constexpr AttentionVariant kVariants[] = {
      AttentionVariant::sdpa,  AttentionVariant::sdpa, AttentionVariant::sdpa,  AttentionVariant::strict,
      AttentionVariant::half,  AttentionVariant::half, AttentionVariant::split, AttentionVariant::split,
      AttentionVariant::turbo, AttentionVariant::turbo};
  return kVariants[static_cast<int>(kernel)];
}

constexpr bool is_libtorch(CudaKernel kernel) {
  return variant_of(kernel) == AttentionVariant::sdpa;
}

/// Which kernel computes a call, and how it is cut up; tile and partitions mean nothing to LibTorch's.
struct CudaPlan {
  CudaKernel kernel = CudaKernel::sdpa_efficient;
  CudaTile tile;       // one that the kernel has for the head dim
  int partitions = 1;  // of the keys, merged by a second kernel
  bool operator==(const CudaPlan&) const = default;
};

constexpr int kMostPartitions = 32;

/// Bytes that the parts of split and turbo (Note [Splitting] in split_parts.h) take at most. A call with more
/// of them is computed a few sequences, or a few heads of a sequence, at a time.
constexpr int64_t kMostPartBytes = int64_t{3} << 29;

/// What of a call is computed at a time.
struct PartGroup {
  int64_t sequences = 0, heads = 0;
  bool operator==(const PartGroup&) const = default;
};

/// The group for `sequences` sequences of `heads` heads whose parts take head_bytes each: as large as
/// kMostPartBytes allow, or one head, and all groups alike.
constexpr PartGroup part_group(int64_t sequences, int64_t heads, int64_t head_bytes) {
  const auto at_once = [](int64_t count, int64_t bytes) {
    const int64_t most = bytes > 0 ? kMostPartBytes / bytes : count;
    const int64_t groups = most > 0 ? (count + most - 1) / most : count;
    return groups > 1 ? (count + groups - 1) / groups : count;
  };
  if (heads * head_bytes <= kMostPartBytes) return {at_once(sequences, heads * head_bytes), heads};
  return {1, at_once(heads, head_bytes)};
}

/// Why this variant cannot compute attention of this type and head dim on this device; empty where it can.
std::string variant_refusal(AttentionVariant variant, CudaElement type, int64_t dim,
                            const CudaDevice& device);

/// The plan for a variant that is not refused.
CudaPlan choose_cuda_plan(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                          const CudaDevice& device);

/// `plan`, and after it the plans that are worth measuring against it: other numbers of partitions, and the
/// other kernels and tiles of the variant. `plan` alone for sdpa.
std::vector<CudaPlan> alternative_plans(const CudaPlan& plan, const CudaSizes& sizes,
                                        const CudaDevice& device);

/// `plan`, which was measured for other sizes of its class, with no more partitions than these sizes allow.
/// Nothing where the device cannot take its kernel or tile.
std::optional<CudaPlan> fitted_plan(const CudaPlan& plan, const CudaSizes& sizes, const CudaDevice& device);

}  // namespace vggt
