#include "attention/cuda/cuda_plan.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "attention/cuda/fused_kernel.h"
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

/// A kernel with one of its tiles, and how many blocks share a multiprocessor: 0 where not even one fits.
struct Fit {
  CudaKernel kernel = CudaKernel::sdpa_efficient;
  CudaTile tile;
  int64_t blocks = 0;
};

constexpr int64_t kReservedBytes = 1024;  // of shared memory, which the hardware keeps of each block

template <class Tile>
Fit strict_fit(const CudaDevice& device) {
  // A thread takes up to 255 of 65536 registers.
  constexpr int64_t kBytes = Tile::kFloats * int64_t{sizeof(float)};
  constexpr int64_t kByRegisters = 65536 / (256 * Tile::kThreads);
  const int64_t by_memory = device.shared_per_multiprocessor / (kBytes + kReservedBytes);
  const int64_t blocks = kBytes > device.shared_per_block ? 0 : std::min(kByRegisters, by_memory);
  return {CudaKernel::strict, {Tile::kQueries, Tile::kKeys}, blocks};
}

template <class Large, class Small>
std::vector<Fit> strict_fits(const CudaSizes& sizes, const CudaDevice& device) {
  const Fit large = strict_fit<Large>(device), small = strict_fit<Small>(device);
  if (large.blocks > 0 && sizes.queries > Small::kQueries) return {large, small};
  return {small, large};
}

/// The kernel's tiles, in the order of tensor_tile.h, but those first of which two blocks share a
/// multiprocessor.
std::vector<Fit> fits_sm80(CudaKernel kernel, std::span<const CudaTile> tiles, int64_t dim, int parts,
                           const CudaDevice& device) {
  std::vector<Fit> fits;
  for (const CudaTile& tile : tiles) {
    const int64_t bytes = shared_bytes80(tile, static_cast<int>(kernel_dim(dim)), parts);
    const int64_t by_memory = device.shared_per_multiprocessor / (bytes + kReservedBytes);
    const int64_t blocks =
        bytes > device.shared_per_block ? 0 : std::min<int64_t>(blocks80(tile, parts), by_memory);
    fits.push_back({kernel, tile, blocks});
  }
  std::ranges::stable_partition(fits, [](const Fit& fit) { return fit.blocks >= 2; });
  return fits;
}

std::vector<Fit> half_fits_sm80(CudaKernel kernel, int64_t dim, const CudaDevice& device) {
  if (dim <= 64) return fits_sm80(kernel, kHalfTiles80, dim, 1, device);
  return fits_sm80(kernel, kHalfTiles80Wide, dim, 1, device);
}

std::vector<Fit> split_fits_sm80(int64_t dim, const CudaDevice& device) {
  if (dim <= 64) return fits_sm80(CudaKernel::split_sm80, kSplitTiles80, dim, 2, device);
  return fits_sm80(CudaKernel::split_sm80, kSplitTiles80Wide, dim, 2, device);
}

Fit half_fit_sm90(CudaKernel kernel, int64_t dim) {
  return {kernel, dim <= 64 ? kHalfTile90 : kHalfTile90Wide, 1};
}

Fit split_fit_sm90(int64_t dim) {
  return {CudaKernel::split_sm90, dim <= 64 ? kSplitTile90 : kSplitTile90Wide, 1};
}

/// The variant's kernels and tiles for these sizes on this device, the one to be taken by rule first.
std::vector<Fit> fits_of(AttentionVariant variant, const CudaSizes& sizes, const CudaDevice& device) {
  const int64_t dim = sizes.dim;
  auto newest_first = [&](const Fit& hopper, std::vector<Fit> ampere) {
    if (device.wgmma) ampere.insert(ampere.begin(), hopper);
    return ampere;
  };
  switch (variant) {
    case AttentionVariant::strict:
      return dim <= 64 ? strict_fits<StrictTile64, StrictTile64Small>(sizes, device)
                       : strict_fits<StrictTile128, StrictTile128Small>(sizes, device);
    case AttentionVariant::half:
      return newest_first(half_fit_sm90(CudaKernel::half_sm90, dim),
                          half_fits_sm80(CudaKernel::half_sm80, dim, device));
    case AttentionVariant::turbo:
      return newest_first(half_fit_sm90(CudaKernel::turbo_sm90, dim),
                          half_fits_sm80(CudaKernel::turbo_sm80, dim, device));
    case AttentionVariant::split:
      return newest_first(split_fit_sm90(dim), split_fits_sm80(dim, device));
    default:
      return {};
  }
}

/// Bytes of workspace that each partition takes.
int64_t partition_bytes(const CudaSizes& sizes) {
  return sizes.rows * sizes.queries * (sizes.dim + 2) * int64_t{sizeof(float)};
}

/// Blocks of one partition, and those that the device runs at once.
struct Blocks {
  int64_t of_partition = 0, at_once = 0;
};
Blocks blocks_of(const CudaSizes& sizes, const CudaDevice& device, const Fit& fit) {
  return {divide_up(sizes.queries, fit.tile.queries) * sizes.rows,
          device.multiprocessors * std::max<int64_t>(1, fit.blocks)};
}

/// No partition without keys, and none beyond so many waves of blocks: the idle end of the last one is then
/// short, and the workspace, which a plan of memory leaves out, small.
int most_partitions(const CudaSizes& sizes, const CudaDevice& device, const Fit& fit) {
  constexpr int64_t kMostWaves = 8;
  const Blocks blocks = blocks_of(sizes, device, fit);
  const int64_t in_waves = kMostWaves * blocks.at_once / std::max<int64_t>(1, blocks.of_partition);
  const int64_t most = std::min({int64_t{kMostPartitions}, divide_up(sizes.keys, fit.tile.keys), in_waves});
  return static_cast<int>(std::max<int64_t>(1, most));
}

/// The number of partitions of the keys with the shortest time: waves of blocks, each for its share of the
/// key tiles and a start, and the second pass. All in the time that a block takes for a key tile.
int choose_partitions(const CudaSizes& sizes, const CudaDevice& device, const Fit& fit, double merge_time) {
  constexpr double kStart = 1;  // loading queries, writing results
  const Blocks blocks = blocks_of(sizes, device, fit);
  const int64_t tiles = divide_up(sizes.keys, fit.tile.keys);
  const int64_t state_bytes = partition_bytes(sizes);
  int best = 1;
  double best_time = INFINITY;
  for (int n = 1; n <= most_partitions(sizes, device, fit); ++n) {
    const double waves = static_cast<double>(divide_up(blocks.of_partition * n, blocks.at_once));
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
  const bool strict = variant == AttentionVariant::strict, half = variant == AttentionVariant::half;
  auto need = [](const std::string& what, const std::string& got) {
    return "needs " + what + ", got " + got;
  };
  if (variant == AttentionVariant::automatic || variant == AttentionVariant::sdpa) return "";
  if (half == (type == CudaElement::fp32)) return need(half ? "bf16 or fp16" : "fp32", name_of(type));
  if (dim > 128) return need("a head dim of at most 128", std::to_string(dim));
  if (strict ? device.strict : device.mma) return "";
  return need(
      strict ? "compute capability 7.5 and a build for it" : "compute capability 8.0 and a build for it",
      capability_name(device.capability));
}

namespace {

/// What `automatic` stands for: the fastest of our variants that keeps the type's accuracy, else sdpa.
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
  const AttentionVariant chosen =
      variant == AttentionVariant::automatic ? automatic(type, sizes.dim, device) : variant;
  const std::vector<Fit> fits = fits_of(chosen, sizes, device);
  if (fits.empty()) return {choose_fused_kernel(type, sizes, device), {}, 1};
  // The time of a block for a key tile, by count of its instructions; the second pass reads and writes at
  // some 3 TB/s.
  constexpr double kMergeBytes = 3e12 / 2;
  const double tile_seconds = chosen == AttentionVariant::strict  ? 10e-6
                              : chosen == AttentionVariant::split ? 2e-6
                                                                  : 1e-6;
  const Fit& fit = fits.front();
  return {fit.kernel, fit.tile, choose_partitions(sizes, device, fit, 1 / (tile_seconds * kMergeBytes))};
}

std::vector<CudaPlan> alternative_plans(const CudaPlan& plan, const CudaSizes& sizes,
                                        const CudaDevice& device) {
  std::vector<CudaPlan> plans = {plan};
  std::vector<Fit> fits = fits_of(variant_of(plan.kernel), sizes, device);
  std::erase_if(fits, [](const Fit& fit) { return fit.blocks == 0; });
  // The plan's own kernel and tile first: what little may be spent on measuring goes to the likeliest.
  std::ranges::stable_partition(
      fits, [&](const Fit& fit) { return fit.kernel == plan.kernel && fit.tile == plan.tile; });
  for (const Fit& fit : fits) {
    for (int n = 1; n <= most_partitions(sizes, device, fit); n *= 2) {
      const CudaPlan other{fit.kernel, fit.tile, n};
      if (other != plan) plans.push_back(other);
    }
  }
  return plans;
}

std::optional<CudaPlan> fitted_plan(const CudaPlan& plan, const CudaSizes& sizes, const CudaDevice& device) {
  const std::vector<Fit> fits = fits_of(variant_of(plan.kernel), sizes, device);
  const auto found = std::ranges::find_if(fits, [&](const Fit& fit) {
    return fit.blocks > 0 && fit.kernel == plan.kernel && fit.tile == plan.tile;
  });
  if (found == fits.end() || plan.partitions < 1) return std::nullopt;
  CudaPlan fitted = plan;
  fitted.partitions = std::min(plan.partitions, most_partitions(sizes, device, *found));
  return fitted;
}

}  // namespace vggt
