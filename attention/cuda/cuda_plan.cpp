#include "attention/cuda/cuda_plan.h"

#include <algorithm>
#include <cmath>

#include "attention/cuda/strict_tile.h"
#include "attention/cuda/tensor_tile.h"

namespace vggt {
namespace {

const char* name_of(CudaElement type) {
  return kElementNames[static_cast<int>(type)];
}

std::string capability_name(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// A tile of a kernel, and how many of its blocks share a multiprocessor.
struct Fit {
  CudaTile tile;
  int64_t blocks = 0;
};

template <class Tile>
Fit strict_fit(const CudaDevice& device) {
  // The hardware keeps 1 KB of each block for itself; a thread takes up to 255 of 65536 registers.
  constexpr int64_t kBytes = Tile::kFloats * int64_t{sizeof(float)}, kReserved = 1024;
  constexpr int64_t kByRegisters = 65536 / (256 * Tile::kThreads);
  if (kBytes > device.shared_per_block) return {};
  return {{Tile::kQueries, Tile::kKeys},
          std::min(kByRegisters, device.shared_per_multiprocessor / (kBytes + kReserved))};
}

template <class Large, class Small>
Fit strict_fit(const CudaSizes& sizes, const CudaDevice& device) {
  const Fit large = strict_fit<Large>(device);
  return large.blocks > 0 && sizes.queries > Small::kQueries ? large : strict_fit<Small>(device);
}

Fit strict_fit(const CudaSizes& sizes, const CudaDevice& device) {
  return sizes.dim <= 64 ? strict_fit<StrictTile64, StrictTile64Small>(sizes, device)
                         : strict_fit<StrictTile128, StrictTile128Small>(sizes, device);
}

Fit half_fit_sm80(int64_t dim, const CudaDevice& device) {
  // Of a block: two tiles each of keys and values, and what the hardware keeps for itself.
  const int64_t bytes = ((dim <= 64 ? 32 : 64) + 1) << 10;
  return {kHalfTile80, std::min<int64_t>(dim <= 64 ? 3 : 2, device.shared_per_multiprocessor / bytes)};
}

Fit half_fit(int64_t dim, const CudaDevice& device) {
  if (device.wgmma) return {dim <= 64 ? kHalfTile90 : kHalfTile90Wide, 1};
  return half_fit_sm80(dim, device);
}

Fit split_fit_sm80(int64_t dim, const CudaDevice& device) {
  // Of a block: tiles, the low part of queries, and what the hardware keeps for itself.
  const int64_t bytes = (64 + (dim <= 64 ? 8 : 16) + 1) << 10;
  return {dim <= 64 ? kSplitTile80 : kSplitTile80Wide,
          std::min<int64_t>(2, device.shared_per_multiprocessor / bytes)};
}

Fit split_fit(int64_t dim, const CudaDevice& device) {
  if (device.wgmma) return {dim <= 64 ? kSplitTile90 : kSplitTile90Wide, 1};
  return split_fit_sm80(dim, device);
}

/// Of the workspace, for each partition.
int64_t partition_bytes(const CudaSizes& sizes) {
  return sizes.rows * sizes.queries * (sizes.dim + 2) * int64_t{sizeof(float)};
}

/// No partition without keys, and none beyond what the workspace may take.
int most_partitions(const CudaSizes& sizes, const CudaTile& tile) {
  constexpr int64_t kMostBytes = int64_t{1} << 29;
  const int64_t in_memory = kMostBytes / std::max<int64_t>(1, partition_bytes(sizes));
  const int64_t most = std::min({int64_t{kMostPartitions}, divide_up(sizes.keys, tile.keys), in_memory});
  return static_cast<int>(std::max<int64_t>(1, most));
}

/// Every tile of the variant's kernels for this head dim that the device can take.
std::vector<CudaTile> tiles_of(AttentionVariant variant, int64_t dim, const CudaDevice& device) {
  std::vector<Fit> fits;
  if (variant == AttentionVariant::strict && dim <= 64)
    fits = {strict_fit<StrictTile64>(device), strict_fit<StrictTile64Small>(device)};
  if (variant == AttentionVariant::strict && dim > 64)
    fits = {strict_fit<StrictTile128>(device), strict_fit<StrictTile128Small>(device)};
  if (variant == AttentionVariant::half || variant == AttentionVariant::turbo) {
    fits = {half_fit(dim, device)};
    if (device.wgmma) fits.push_back(half_fit_sm80(dim, device));
  }
  if (variant == AttentionVariant::split) {
    fits = {split_fit(dim, device)};
    if (device.wgmma) fits.push_back(split_fit_sm80(dim, device));
  }
  std::vector<CudaTile> tiles;
  for (const Fit& fit : fits) {
    if (fit.blocks > 0) tiles.push_back(fit.tile);
  }
  return tiles;
}

/// The number of partitions of the keys with the shortest time: waves of blocks, each for its share of the
/// key tiles and a start, and the second pass. All in the time that a block takes for a key tile.
int choose_partitions(const CudaSizes& sizes, const CudaDevice& device, const Fit& fit, double merge_time) {
  constexpr double kStart = 1;  // loading queries, writing results
  const int64_t blocks = divide_up(sizes.queries, fit.tile.queries) * sizes.rows;
  const int64_t slots = device.multiprocessors * std::max<int64_t>(1, fit.blocks);
  const int64_t tiles = divide_up(sizes.keys, fit.tile.keys);
  const int64_t state_bytes = partition_bytes(sizes);
  int best = 1;
  double best_time = INFINITY;
  for (int n = 1; n <= most_partitions(sizes, fit.tile); ++n) {
    const double waves = static_cast<double>(divide_up(blocks * n, slots));
    const double pass = waves * (static_cast<double>(divide_up(tiles, n)) + kStart);
    const double time = n == 1 ? pass : pass + 1 + n * merge_time * static_cast<double>(state_bytes);
    if (time < best_time) {
      best_time = time;
      best = n;
    }
  }
  return best;
}

}  // namespace

std::string variant_refusal(AttentionVariant variant, CudaElement type, int64_t dim,
                            const CudaDevice& device) {
  const bool fp32 = type == CudaElement::fp32;
  auto need = [&](const std::string& what, const std::string& got) {
    return "needs " + what + ", got " + got;
  };
  switch (variant) {
    case AttentionVariant::automatic:
    case AttentionVariant::sdpa:
      return "";
    case AttentionVariant::strict:
      if (!fp32) return need("fp32", name_of(type));
      if (dim > 128) return need("a head dim of at most 128", std::to_string(dim));
      if (device.capability < 75) return need("compute capability 7.5", capability_name(device.capability));
      return "";
    case AttentionVariant::split:
      if (!fp32) return need("fp32", name_of(type));
      if (dim > 128) return need("a head dim of at most 128", std::to_string(dim));
      if (!device.mma)
        return need("compute capability 8.0 and a build for it", capability_name(device.capability));
      return "";
    case AttentionVariant::turbo:
    case AttentionVariant::half:
      if (variant == AttentionVariant::turbo && !fp32) return need("fp32", name_of(type));
      if (variant == AttentionVariant::half && fp32) return need("bf16 or fp16", name_of(type));
      if (dim > 128) return need("a head dim of at most 128", std::to_string(dim));
      if (!device.mma)
        return need("compute capability 8.0 and a build for it", capability_name(device.capability));
      return "";
  }
  return "is unknown";
}

namespace {

/// What `automatic` stands for: of our kernels the fastest that keeps the type's accuracy.
AttentionVariant automatic(CudaElement type, int64_t dim, const CudaDevice& device) {
  using enum AttentionVariant;
  for (AttentionVariant variant : {half, split, strict}) {
    if (variant_refusal(variant, type, dim, device).empty()) return variant;
  }
  return sdpa;
}

}  // namespace

CudaPlan choose_cuda_plan(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                          const CudaDevice& device) {
  CudaPlan plan;
  plan.variant = variant == AttentionVariant::automatic ? automatic(type, sizes.dim, device) : variant;
  // The time of a block for a key tile, by count of its instructions; the second pass reads and writes at
  // some 3 TB/s.
  constexpr double kMergeBytes = 3e12 / 2;
  auto cut = [&](const Fit& fit, double tile_seconds) {
    plan.tile = fit.tile;
    plan.partitions = choose_partitions(sizes, device, fit, 1 / (tile_seconds * kMergeBytes));
  };
  if (plan.variant == AttentionVariant::strict) cut(strict_fit(sizes, device), 10e-6);
  if (plan.variant == AttentionVariant::half || plan.variant == AttentionVariant::turbo)
    cut(half_fit(sizes.dim, device), 1e-6);
  if (plan.variant == AttentionVariant::split) cut(split_fit(sizes.dim, device), 2e-6);
  return plan;
}

std::vector<CudaPlan> alternative_plans(const CudaPlan& plan, const CudaSizes& sizes,
                                        const CudaDevice& device) {
  std::vector<CudaPlan> plans = {plan};
  std::vector<CudaTile> tiles = tiles_of(plan.variant, sizes.dim, device);
  // The plan's own tile first: what little may be spent on measuring goes to the likeliest.
  std::ranges::stable_partition(tiles, [&](const CudaTile& tile) { return tile == plan.tile; });
  for (const CudaTile& tile : tiles) {
    for (int n = 1; n <= most_partitions(sizes, tile); n *= 2) {
      const CudaPlan other{plan.variant, tile, n};
      if (other != plan) plans.push_back(other);
    }
  }
  return plans;
}

std::optional<CudaPlan> fitted_plan(const CudaPlan& plan, const CudaSizes& sizes, const CudaDevice& device) {
  const std::vector<CudaTile> tiles = tiles_of(plan.variant, sizes.dim, device);
  if (!std::ranges::count(tiles, plan.tile) || plan.partitions < 1) return std::nullopt;
  CudaPlan fitted = plan;
  fitted.partitions = std::min(plan.partitions, most_partitions(sizes, plan.tile));
  return fitted;
}

}  // namespace vggt
