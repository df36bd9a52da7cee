// Which kernel computes what, and how it is cut up: pure functions of type, sizes and GPU.
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/cuda/cuda_plan.h"
#include "attention/cuda/fused_kernel.h"
#include "attention/cuda/tensor_tile.h"

namespace {

using vggt::AttentionVariant;
using vggt::CudaDevice;
using vggt::CudaElement;
using vggt::CudaKernel;
using vggt::CudaPlan;

constexpr int64_t kKilo = 1024;
// With code of strict alone: tests add the tensor cores'.
constexpr CudaDevice kH200{90, 132, 227 * kKilo, 228 * kKilo, /*strict=*/true};
constexpr CudaDevice kA100{80, 108, 163 * kKilo, 164 * kKilo, /*strict=*/true};
constexpr CudaDevice kAda{89, 128, 99 * kKilo, 100 * kKilo, /*strict=*/true};
constexpr CudaDevice kTuring{75, 40, 64 * kKilo, 64 * kKilo, /*strict=*/true};
constexpr CudaDevice kVolta{70, 80, 96 * kKilo, 96 * kKilo};

CudaPlan strict(int64_t rows, int64_t queries, int64_t keys, int64_t dim, const CudaDevice& device) {
  return choose_cuda_plan(AttentionVariant::strict, CudaElement::fp32, {rows, queries, keys, dim}, device);
}

TEST(CudaPlan, AutomaticIsTheFastestThatKeepsTheAccuracy) {
  CudaDevice hopper = kH200, ampere = kA100;
  hopper.mma = hopper.wgmma = ampere.mma = true;
  auto automatic = [](CudaElement type, int64_t dim, const CudaDevice& device) {
    const vggt::CudaSizes sizes{16, 4164, 4164, dim};
    return variant_of(choose_cuda_plan(AttentionVariant::automatic, type, sizes, device).kernel);
  };
  EXPECT_EQ(automatic(CudaElement::fp32, 64, hopper), AttentionVariant::split);
  EXPECT_EQ(automatic(CudaElement::fp32, 128, ampere), AttentionVariant::split);
  EXPECT_EQ(automatic(CudaElement::fp32, 64, kTuring), AttentionVariant::strict);
  EXPECT_EQ(automatic(CudaElement::fp32, 256, hopper), AttentionVariant::sdpa);
  const vggt::CudaSizes cameras{16, 8, 8, 128};
  EXPECT_EQ(choose_cuda_plan(AttentionVariant::automatic, CudaElement::fp32, cameras, hopper).kernel,
            CudaKernel::split_sm90);
  for (auto type : {CudaElement::bf16, CudaElement::fp16}) {
    EXPECT_EQ(automatic(type, 64, hopper), AttentionVariant::half);
    EXPECT_EQ(automatic(type, 128, ampere), AttentionVariant::half);
    EXPECT_EQ(automatic(type, 64, kTuring), AttentionVariant::sdpa);
  }
}

TEST(CudaPlan, PartsOfManyHeadsAreMadeAFewAtATime) {
  using vggt::kMostPartBytes;
  using vggt::part_group;
  using vggt::PartGroup;
  EXPECT_EQ(part_group(1, 16, kMostPartBytes / 16), (PartGroup{1, 16}));
  EXPECT_EQ(part_group(1, 16, kMostPartBytes / 16 + 1), (PartGroup{1, 8}));  // of 15, two groups alike
  EXPECT_EQ(part_group(1, 16, kMostPartBytes / 5), (PartGroup{1, 4}));
  EXPECT_EQ(part_group(1, 16, 2 * kMostPartBytes), (PartGroup{1, 1}));
  EXPECT_EQ(part_group(100, 16, kMostPartBytes / 16), (PartGroup{1, 16}));
  EXPECT_EQ(part_group(100, 16, kMostPartBytes / 640), (PartGroup{34, 16}));
  EXPECT_EQ(part_group(3, 16, kMostPartBytes / 8), (PartGroup{1, 8}));
  EXPECT_EQ(part_group(70000, 1, 256), (PartGroup{70000, 1}));
  EXPECT_EQ(part_group(4, 2, 0), (PartGroup{4, 2}));
}

TEST(CudaPlan, RefusesWhatMakesNoSense) {
  auto refusal = [](AttentionVariant variant, CudaElement type, int64_t dim, const CudaDevice& device) {
    return variant_refusal(variant, type, dim, device);
  };
  for (auto type : {CudaElement::fp32, CudaElement::bf16, CudaElement::fp16}) {
    EXPECT_EQ(refusal(AttentionVariant::automatic, type, 300, kVolta), "");
    EXPECT_EQ(refusal(AttentionVariant::sdpa, type, 300, kVolta), "");
  }
  EXPECT_EQ(refusal(AttentionVariant::strict, CudaElement::fp32, 64, kTuring), "");
  EXPECT_EQ(refusal(AttentionVariant::strict, CudaElement::bf16, 64, kH200), "needs fp32, got bf16");
  EXPECT_EQ(refusal(AttentionVariant::strict, CudaElement::fp32, 129, kH200),
            "needs a head dim of at most 128, got 129");
  EXPECT_EQ(refusal(AttentionVariant::strict, CudaElement::fp32, 64, kVolta),
            "needs compute capability 7.5 and a build for it, got 7.0");
  EXPECT_EQ(refusal(AttentionVariant::half, CudaElement::fp32, 64, kH200), "needs bf16 or fp16, got fp32");
  EXPECT_EQ(refusal(AttentionVariant::split, CudaElement::fp16, 64, kH200), "needs fp32, got fp16");
  EXPECT_EQ(refusal(AttentionVariant::turbo, CudaElement::bf16, 64, kH200), "needs fp32, got bf16");
  EXPECT_EQ(refusal(AttentionVariant::turbo, CudaElement::fp32, 129, kH200),
            "needs a head dim of at most 128, got 129");
}

TEST(CudaPlan, StrictNeedsABuildForTheDevice) {
  CudaDevice foreign = kA100;
  foreign.strict = false;
  EXPECT_EQ(variant_refusal(AttentionVariant::strict, CudaElement::fp32, 64, foreign),
            "needs compute capability 7.5 and a build for it, got 8.0");
  EXPECT_EQ(choose_cuda_plan(AttentionVariant::automatic, CudaElement::fp32, {16, 8, 8, 64}, foreign).kernel,
            CudaKernel::sdpa_efficient);
}

TEST(CudaPlan, NamesTheKernelOfTheNewestGeneration) {
  CudaDevice ampere = kA100, hopper = kH200;
  ampere.mma = hopper.mma = hopper.wgmma = true;
  auto kernel = [](AttentionVariant variant, CudaElement type, const CudaDevice& device) {
    for (int64_t dim : {64, 128}) {
      const vggt::CudaSizes sizes{16, 4164, 4164, dim};
      const CudaPlan plan = choose_cuda_plan(variant, type, sizes, device);
      EXPECT_EQ(variant_of(plan.kernel), variant);
      for (const CudaPlan& other : alternative_plans(plan, sizes, device))
        EXPECT_EQ(variant_of(other.kernel), variant);
    }
    return choose_cuda_plan(variant, type, {16, 4164, 4164, 64}, device).kernel;
  };
  EXPECT_EQ(kernel(AttentionVariant::sdpa, CudaElement::fp32, hopper), CudaKernel::sdpa_efficient);
  EXPECT_EQ(kernel(AttentionVariant::strict, CudaElement::fp32, hopper), CudaKernel::strict);
  EXPECT_EQ(kernel(AttentionVariant::half, CudaElement::bf16, hopper), CudaKernel::half_sm90);
  EXPECT_EQ(kernel(AttentionVariant::half, CudaElement::fp16, ampere), CudaKernel::half_sm80);
  EXPECT_EQ(kernel(AttentionVariant::split, CudaElement::fp32, hopper), CudaKernel::split_sm90);
  EXPECT_EQ(kernel(AttentionVariant::split, CudaElement::fp32, ampere), CudaKernel::split_sm80);
  EXPECT_EQ(kernel(AttentionVariant::turbo, CudaElement::fp32, hopper), CudaKernel::turbo_sm90);
  EXPECT_EQ(kernel(AttentionVariant::turbo, CudaElement::fp32, ampere), CudaKernel::turbo_sm80);
}

TEST(CudaPlan, KernelsHaveTheTilesOfTheirGeneration) {
  CudaDevice hopper = kH200;
  hopper.mma = hopper.wgmma = true;
  const vggt::CudaSizes sizes{16, 4164, 4164, 64};
  const CudaPlan plan = choose_cuda_plan(AttentionVariant::half, CudaElement::bf16, sizes, hopper);
  CudaPlan mixed = plan;
  mixed.kernel = CudaKernel::half_sm80;  // with the tile of half_sm90
  EXPECT_TRUE(fitted_plan(plan, sizes, hopper));
  EXPECT_FALSE(fitted_plan(mixed, sizes, hopper));
  std::set<CudaKernel> kernels;
  for (const CudaPlan& one : alternative_plans(plan, sizes, hopper)) kernels.insert(one.kernel);
  EXPECT_EQ(kernels, (std::set{CudaKernel::half_sm80, CudaKernel::half_sm90}));
}

TEST(CudaPlan, EveryKernelHasANameOfItsOwn) {
  std::set<std::string> names(std::begin(vggt::kKernelNames), std::end(vggt::kKernelNames));
  EXPECT_EQ(names.size(), std::size(vggt::kKernelNames));
  EXPECT_EQ(std::string(kernel_name(CudaKernel::turbo_sm90)), "turbo_sm90");  // the last
  for (auto kernel : {CudaKernel::sdpa_cudnn, CudaKernel::strict, CudaKernel::half_sm90,
                      CudaKernel::split_sm80, CudaKernel::turbo_sm90}) {
    EXPECT_TRUE(std::string(kernel_name(kernel)).starts_with(variant_name(variant_of(kernel))));
  }
}

TEST(CudaPlan, TensorCoresNeedADeviceAndABuildForThem) {
  CudaDevice ampere = kA100, hopper = kH200;
  auto half = [](const CudaDevice& device, int64_t dim) {
    return choose_cuda_plan(AttentionVariant::half, CudaElement::bf16, {16, 16656, 16656, dim}, device);
  };
  EXPECT_EQ(variant_refusal(AttentionVariant::half, CudaElement::bf16, 64, kA100),
            "needs compute capability 8.0 and a build for it, got 8.0");
  EXPECT_EQ(variant_refusal(AttentionVariant::split, CudaElement::fp32, 64, kTuring),
            "needs compute capability 8.0 and a build for it, got 7.5");
  EXPECT_EQ(variant_refusal(AttentionVariant::turbo, CudaElement::fp32, 64, kTuring),
            "needs compute capability 8.0 and a build for it, got 7.5");
  ampere.mma = hopper.mma = hopper.wgmma = true;
  EXPECT_EQ(variant_refusal(AttentionVariant::half, CudaElement::fp16, 128, ampere), "");
  EXPECT_EQ(variant_refusal(AttentionVariant::turbo, CudaElement::fp32, 128, ampere), "");
  EXPECT_EQ(variant_refusal(AttentionVariant::half, CudaElement::fp16, 129, ampere),
            "needs a head dim of at most 128, got 129");
  EXPECT_EQ(variant_refusal(AttentionVariant::split, CudaElement::fp32, 64, hopper), "");
  EXPECT_EQ(variant_refusal(AttentionVariant::split, CudaElement::fp32, 64, ampere), "");
  EXPECT_EQ(half(ampere, 64).tile, (vggt::CudaTile{128, 64}));
  EXPECT_EQ(half(ampere, 128).tile, (vggt::CudaTile{128, 32}));
  EXPECT_EQ(half(hopper, 64).tile.queries, 192);
  EXPECT_EQ(half(hopper, 128).tile.queries, 128);
}

TEST(CudaPlan, BlocksThatDoNotFitTogetherAreNotCountedOn) {
  CudaDevice ada = kAda, roomy = kAda;
  ada.mma = roomy.mma = true;
  roomy.shared_per_multiprocessor = 2 * kAda.shared_per_multiprocessor;
  // As many blocks as multiprocessors: more only where two fit into one.
  const vggt::CudaSizes sizes{16, 512, 65536, 128};
  auto partitions = [&](const CudaDevice& device) {
    return choose_cuda_plan(AttentionVariant::split, CudaElement::fp32, sizes, device).partitions;
  };
  EXPECT_EQ(partitions(ada), 1);
  EXPECT_GT(partitions(roomy), 1);
}

TEST(CudaPlan, SplitHasTilesForEveryTensorCore) {
  CudaDevice hopper = kH200, ampere = kA100, ada = kAda;
  hopper.mma = hopper.wgmma = ampere.mma = ada.mma = true;
  auto split = [](const CudaDevice& device, int64_t dim) {
    return choose_cuda_plan(AttentionVariant::split, CudaElement::fp32, {16, 4164, 4164, dim}, device);
  };
  EXPECT_EQ(split(hopper, 64).tile.queries, 128);
  EXPECT_EQ(split(ampere, 64).tile, (vggt::CudaTile{128, 32}));
  EXPECT_EQ(split(ada, 64).tile, (vggt::CudaTile{64, 32}));
  for (const CudaDevice& device : {ampere, ada}) EXPECT_EQ(split(device, 128).tile, (vggt::CudaTile{64, 32}));
  // Tiles of other GPUs are not for this one, those of older ones are.
  const vggt::CudaSizes sizes{16, 4164, 4164, 64};
  EXPECT_FALSE(fitted_plan(split(hopper, 64), sizes, ampere));
  EXPECT_TRUE(fitted_plan(split(ampere, 64), sizes, hopper));
}

// Shared memory of a block and of a multiprocessor, in KB, by compute capability.
struct SharedMemory {
  int capability, block, multiprocessor;
};
constexpr SharedMemory kSharedMemories[] = {{80, 163, 164}, {86, 99, 100},   {87, 163, 164}, {89, 99, 100},
                                            {90, 227, 228}, {100, 227, 228}, {120, 99, 100}};

TEST(CudaPlan, TilesFitEveryGpuFromSm80On) {
  for (const SharedMemory& memory : kSharedMemories) {
    CudaDevice device{memory.capability, 100, memory.block * kKilo, memory.multiprocessor * kKilo};
    device.mma = true;
    for (auto [variant, type, parts] : {std::tuple{AttentionVariant::half, CudaElement::bf16, 1},
                                        std::tuple{AttentionVariant::turbo, CudaElement::fp32, 1},
                                        std::tuple{AttentionVariant::split, CudaElement::fp32, 2}}) {
      for (int dim : {64, 128}) {
        const vggt::CudaSizes sizes{16, 16656, 16656, dim};
        const CudaPlan plan = choose_cuda_plan(variant, type, sizes, device);
        const int64_t most = memory.block * kKilo, bytes = vggt::shared_bytes80(plan.tile, dim, parts);
        EXPECT_LE(bytes, most) << variant_name(variant) << " " << dim << " on " << memory.capability;
        // Two blocks hide each other's waiting.
        EXPECT_LE((parts == 1 ? 2 : 1) * (bytes + kKilo), memory.multiprocessor * kKilo) << dim;
        for (const CudaPlan& other : alternative_plans(plan, sizes, device))
          EXPECT_LE(vggt::shared_bytes80(other.tile, dim, parts), most);
      }
    }
  }
}

TEST(CudaPlan, TurboIsCutUpAsHalf) {
  CudaDevice ampere = kA100, hopper = kH200;
  ampere.mma = hopper.mma = hopper.wgmma = true;
  for (const CudaDevice& device : {ampere, hopper}) {
    for (int64_t dim : {64, 128}) {
      const vggt::CudaSizes sizes{16, 4164, 4164, dim};
      CudaPlan turbo = choose_cuda_plan(AttentionVariant::turbo, CudaElement::fp32, sizes, device);
      const CudaPlan half = choose_cuda_plan(AttentionVariant::half, CudaElement::fp16, sizes, device);
      EXPECT_EQ(alternative_plans(turbo, sizes, device).size(),
                alternative_plans(half, sizes, device).size());
      EXPECT_EQ(fitted_plan(turbo, sizes, device), turbo);
      EXPECT_EQ(variant_of(turbo.kernel), AttentionVariant::turbo);
      turbo.kernel = half.kernel;
      EXPECT_EQ(turbo, half);
    }
  }
}

TEST(CudaPlan, StrictTakesTheTileThatFits) {
  EXPECT_EQ(strict(16, 4164, 4164, 64, kH200).tile.queries, 128);
  EXPECT_EQ(strict(16, 4164, 4164, 64, kA100).tile.queries, 128);
  EXPECT_EQ(strict(16, 4164, 4164, 64, kAda).tile.queries, 64);
  EXPECT_EQ(strict(16, 4164, 4164, 64, kTuring).tile.queries, 64);
  EXPECT_EQ(strict(16, 30, 30, 64, kH200).tile.queries, 64);
  EXPECT_EQ(strict(16, 4164, 4164, 128, kH200).tile.queries, 64);
  EXPECT_EQ(strict(16, 4164, 4164, 128, kTuring).tile.queries, 32);
}

TEST(CudaPlan, StrictCutsTheKeysWhereQueriesDoNotFillTheChip) {
  EXPECT_EQ(strict(16, 104100, 104100, 64, kH200).partitions, 1);
  EXPECT_EQ(strict(50 * 16, 1041, 1041, 64, kH200).partitions, 1);
  EXPECT_EQ(strict(1, 1, 1, 64, kH200).partitions, 1);
  EXPECT_EQ(strict(1, 1, 0, 64, kH200).partitions, 1);
  EXPECT_GT(strict(16, 1041, 1041, 64, kH200).partitions, 1);
  EXPECT_GE(strict(1, 1, 100000, 64, kH200).partitions, 16);
  EXPECT_GE(strict(1, 1041, 100000, 64, kH200).partitions, 8);
}

TEST(CudaPlan, PartitionsStayWithinTheirBounds) {
  for (const CudaDevice& device : {kH200, kA100, kTuring}) {
    for (int64_t rows : {1, 16, 300}) {
      for (int64_t queries : {1, 128, 129, 2000, 50000}) {
        for (int64_t keys : {0, 1, 64, 65, 1041, 50000}) {
          const CudaPlan plan = strict(rows, queries, keys, 64, device);
          EXPECT_GE(plan.partitions, 1);
          EXPECT_LE(plan.partitions, vggt::kMostPartitions);
          EXPECT_LE(plan.partitions, std::max<int64_t>(1, (keys + plan.tile.keys - 1) / plan.tile.keys));
        }
      }
    }
  }
}

// ---- beside LibTorch's kernels

CudaDevice with_code(CudaDevice device, bool mma, bool wgmma = false) {
  device.mma = mma;
  device.wgmma = wgmma;
  return device;
}
constexpr CudaDevice kBlackwell{100, 148, 227 * kKilo, 228 * kKilo, /*strict=*/true, /*mma=*/true};
constexpr CudaDevice kThor{110, 20, 227 * kKilo, 228 * kKilo, /*strict=*/true, /*mma=*/true};
constexpr CudaDevice kRtx50{120, 170, 99 * kKilo, 100 * kKilo, /*strict=*/true, /*mma=*/true};
constexpr vggt::CudaSizes kLong{16, 4164, 4164, 64}, kShort{16, 64, 64, 64};

TEST(FusedKernel, OfTheVariantSdpaIsTheFastestThatFits) {
  auto chosen = [](CudaElement type, const vggt::CudaSizes& sizes, const CudaDevice& device) {
    const CudaKernel kernel = choose_fused_kernel(type, sizes, device);
    EXPECT_EQ(choose_cuda_plan(AttentionVariant::sdpa, type, sizes, device), (CudaPlan{kernel, {}, 1}));
    return kernel;
  };
  EXPECT_EQ(chosen(CudaElement::fp32, kLong, kH200), CudaKernel::sdpa_efficient);
  EXPECT_EQ(chosen(CudaElement::bf16, kLong, kH200), CudaKernel::sdpa_cudnn);
  EXPECT_EQ(chosen(CudaElement::bf16, kShort, kH200), CudaKernel::sdpa_flash);
  EXPECT_EQ(chosen(CudaElement::fp16, kLong, kA100), CudaKernel::sdpa_flash);
  EXPECT_EQ(chosen(CudaElement::bf16, {16, 4164, 4164, 12}, kH200), CudaKernel::sdpa_flash);
  EXPECT_EQ(chosen(CudaElement::bf16, {16, 4164, 4164, 320}, kH200), CudaKernel::sdpa_efficient);
  EXPECT_EQ(chosen(CudaElement::fp16, kLong, kTuring), CudaKernel::sdpa_efficient);
}

TEST(FusedKernel, CandidatesTakeTheTypeTheSizesAndTheDevice) {
  using enum CudaKernel;
  using Kernels = std::vector<CudaKernel>;
  auto of_half = [](CudaElement type, const vggt::CudaSizes& sizes, const CudaDevice& device) {
    return fused_kernels(AttentionVariant::half, type, sizes, device);
  };
  for (auto type : {CudaElement::bf16, CudaElement::fp16}) {
    EXPECT_EQ(of_half(type, kLong, kH200), (Kernels{sdpa_cudnn, sdpa_flash, sdpa_efficient}));
    EXPECT_EQ(of_half(type, kShort, kH200), (Kernels{sdpa_flash, sdpa_cudnn, sdpa_efficient}));
    EXPECT_EQ(of_half(type, kLong, kA100), (Kernels{sdpa_flash, sdpa_cudnn, sdpa_efficient}));
    EXPECT_EQ(of_half(type, {16, 4164, 4164, 12}, kA100), (Kernels{sdpa_flash, sdpa_efficient}));
    EXPECT_EQ(of_half(type, {16, 4164, 4164, 160}, kH200), (Kernels{sdpa_flash, sdpa_efficient}));
    EXPECT_EQ(of_half(type, {16, 4164, 4164, 320}, kH200), Kernels{sdpa_efficient});
  }
  EXPECT_EQ(of_half(CudaElement::fp16, kLong, kTuring), Kernels{sdpa_efficient});
  EXPECT_EQ(of_half(CudaElement::bf16, kLong, kTuring), Kernels{});
}

TEST(FusedKernel, NoCandidateIsLessExactThanTheVariant) {
  using Kernels = std::vector<CudaKernel>;
  auto of_fp32 = [](AttentionVariant variant, int64_t keys) {
    return fused_kernels(variant, CudaElement::fp32, {16, 4164, keys, 64}, kH200);
  };
  for (auto variant : {AttentionVariant::split, AttentionVariant::strict}) {
    EXPECT_EQ(of_fp32(variant, 65536), Kernels{CudaKernel::sdpa_efficient});
    EXPECT_EQ(of_fp32(variant, 104100), Kernels{});  // its error there is beyond split's limit
  }
  EXPECT_EQ(of_fp32(AttentionVariant::turbo, 104100), Kernels{CudaKernel::sdpa_efficient});
  EXPECT_EQ(of_fp32(AttentionVariant::sdpa, 104100), Kernels{CudaKernel::sdpa_efficient});
  for (auto fused : {CudaKernel::sdpa_flash, CudaKernel::sdpa_cudnn})
    EXPECT_FALSE(is_as_exact(fused, AttentionVariant::turbo, CudaElement::fp32, 100));
}

TEST(FusedKernel, WithoutMeasuringItIsTakenWhereTheBuildLacksTheInstructions) {
  auto rule = [](CudaElement type, const vggt::CudaSizes& sizes, const CudaDevice& device) {
    const CudaPlan own = choose_cuda_plan(AttentionVariant::automatic, type, sizes, device);
    const CudaPlan plan = plan_by_rule(own, type, sizes, device);
    EXPECT_TRUE(plan == own || is_libtorch(plan.kernel));
    return plan.kernel;
  };
  for (auto type : {CudaElement::bf16, CudaElement::fp16}) {
    EXPECT_EQ(rule(type, kLong, with_code(kA100, true)), CudaKernel::half_sm80);
    EXPECT_EQ(rule(type, kLong, with_code(kAda, true)), CudaKernel::half_sm80);
    EXPECT_EQ(rule(type, kLong, with_code(kH200, true, true)), CudaKernel::half_sm90);
    EXPECT_EQ(rule(type, kLong, kRtx50), CudaKernel::half_sm80);
    for (const CudaDevice& device : {with_code(kH200, true), kBlackwell, kThor}) {
      EXPECT_EQ(rule(type, kLong, device), CudaKernel::sdpa_cudnn);
      EXPECT_EQ(rule(type, kShort, device), CudaKernel::half_sm80);
    }
    EXPECT_EQ(rule(type, kLong, with_code(kA100, false)), CudaKernel::sdpa_flash);
  }
  EXPECT_EQ(rule(CudaElement::fp16, kLong, kTuring), CudaKernel::sdpa_efficient);
  EXPECT_EQ(rule(CudaElement::fp32, kLong, kTuring), CudaKernel::strict);
  EXPECT_EQ(rule(CudaElement::fp32, kLong, kBlackwell), CudaKernel::split_sm80);
  EXPECT_EQ(rule(CudaElement::fp32, kLong, kVolta), CudaKernel::sdpa_efficient);
}

TEST(FusedKernel, IsComparedWithThePlanByRuleOnce) {
  using enum CudaKernel;
  auto kernels = [](CudaElement type, const vggt::CudaSizes& sizes, const CudaDevice& device) {
    const CudaPlan own = choose_cuda_plan(AttentionVariant::automatic, type, sizes, device);
    std::vector<CudaKernel> kernels;
    for (const CudaPlan& plan : plans_with_libtorch(own, type, sizes, device)) {
      EXPECT_TRUE(plan == own || plan == (CudaPlan{plan.kernel, {}, 1}));
      kernels.push_back(plan.kernel);
    }
    return kernels;
  };
  using Kernels = std::vector<CudaKernel>;
  EXPECT_EQ(kernels(CudaElement::bf16, kLong, with_code(kH200, true, true)),
            (Kernels{half_sm90, sdpa_cudnn, sdpa_flash, sdpa_efficient}));
  EXPECT_EQ(kernels(CudaElement::bf16, kLong, kBlackwell),
            (Kernels{sdpa_cudnn, half_sm80, sdpa_flash, sdpa_efficient}));
  EXPECT_EQ(kernels(CudaElement::fp32, kLong, kBlackwell), (Kernels{split_sm80, sdpa_efficient}));
  EXPECT_EQ(kernels(CudaElement::fp32, {16, 104100, 104100, 64}, kBlackwell), Kernels{split_sm80});
  EXPECT_EQ(kernels(CudaElement::bf16, {16, 4164, 4164, 256}, kA100), (Kernels{sdpa_flash, sdpa_efficient}));
  EXPECT_EQ(kernels(CudaElement::fp16, kLong, kTuring), Kernels{sdpa_efficient});
}

TEST(FusedKernel, PlansAreNamedForTheReport) {
  EXPECT_EQ(plan_name(AttentionVariant::half, {CudaKernel::half_sm80, {128, 64}, 3}), "half: own, 128x64");
  EXPECT_EQ(plan_name(AttentionVariant::half, {CudaKernel::sdpa_cudnn, {}, 1}), "half: cuDNN (LibTorch)");
  EXPECT_EQ(plan_name(AttentionVariant::half, {CudaKernel::sdpa_flash, {}, 1}), "half: flash (LibTorch)");
  EXPECT_EQ(plan_name(AttentionVariant::split, {CudaKernel::sdpa_efficient, {}, 1}),
            "split: mem-efficient (LibTorch)");
}

}  // namespace
