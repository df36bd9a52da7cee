#include "attention/cuda/fused_kernel.h"

#include <algorithm>

namespace vggt {
namespace {

/// Whether the kernel has code for this type, head dim and GPU, by LibTorch's own conditions.
bool takes(CudaKernel fused, CudaElement type, int64_t dim, const CudaDevice& device) {
  const bool half = type != CudaElement::fp32, ampere = device.capability >= 80;
  if (fused == CudaKernel::sdpa_cudnn) return half && ampere && dim % 8 == 0 && dim <= 128;
  if (fused == CudaKernel::sdpa_flash) return half && ampere && dim <= 256;
  return type != CudaElement::bf16 || ampere;
}

/// Whether the GPU has matrix instructions beyond Ampere's for which this build has no code: Hopper's without
/// sm_90a, those of 10.x and 11.x always. 12.x has Ampere's alone.
bool lacks_newest_code(const CudaDevice& device) {
  const int generation = device.capability / 10;
  return generation == 9 ? !device.wgmma : generation == 10 || generation == 11;
}

}  // namespace

CudaKernel choose_fused_kernel(CudaElement type, const CudaSizes& sizes, const CudaDevice& device) {
  // Measured on an H200 with the model's strides: from 512 tokens on cuDNN takes 0.3 to 0.9 of flash's time.
  // Below, the gain is microseconds, and every new shape costs a plan.
  const bool long_enough = sizes.queries >= 512 && sizes.keys >= 512;
  if (device.capability >= 90 && long_enough && takes(CudaKernel::sdpa_cudnn, type, sizes.dim, device))
    return CudaKernel::sdpa_cudnn;
  return takes(CudaKernel::sdpa_flash, type, sizes.dim, device) ? CudaKernel::sdpa_flash
                                                                : CudaKernel::sdpa_efficient;
}

bool is_as_exact(CudaKernel fused, AttentionVariant variant, CudaElement type, int64_t keys) {
  if (type != CudaElement::fp32) return true;
  if (fused != CudaKernel::sdpa_efficient) return false;
  // It makes three products in TF32 of each, whatever LibTorch's setting for TF32 says (CUTLASS'
  // OpMultiplyAddFastF32), and its error grows with the keys: 8.8e-7 of 16,656 and 1.6e-6 of 104,100 on an
  // H200, where split's limit is 1.5e-6.
  constexpr int64_t kMostKeys = 65536;
  const bool fp32_accuracy = variant == AttentionVariant::split || variant == AttentionVariant::strict;
  return !fp32_accuracy || keys <= kMostKeys;
}

std::vector<CudaKernel> fused_kernels(AttentionVariant variant, CudaElement type, const CudaSizes& sizes,
                                      const CudaDevice& device) {
  std::vector<CudaKernel> kernels = {choose_fused_kernel(type, sizes, device)};
  for (CudaKernel other : {CudaKernel::sdpa_cudnn, CudaKernel::sdpa_flash, CudaKernel::sdpa_efficient}) {
    if (other != kernels.front()) kernels.push_back(other);
  }
  std::erase_if(kernels, [&](CudaKernel one) {
    return !takes(one, type, sizes.dim, device) || !is_as_exact(one, variant, type, sizes.keys);
  });
  return kernels;
}

CudaPlan plan_by_rule(const CudaPlan& own, CudaElement type, const CudaSizes& sizes,
                      const CudaDevice& device) {
  // Of bf16 and fp16, on an H200: by Hopper's instructions ours takes 0.7 of cuDNN's time, by Ampere's 1.3 of
  // cuDNN's and 0.95 of flash's. So LibTorch's is only taken where it is cuDNN, whose code is for the GPU
  // itself. In fp32 split takes a third of the memory-efficient kernel's time or less.
  const CudaKernel fused = choose_fused_kernel(type, sizes, device);
  const bool faster = fused == CudaKernel::sdpa_cudnn && lacks_newest_code(device);
  return faster ? CudaPlan{fused, {}, 1} : own;
}

std::vector<CudaPlan> plans_with_libtorch(const CudaPlan& own, CudaElement type, const CudaSizes& sizes,
                                          const CudaDevice& device) {
  std::vector<CudaPlan> plans = {plan_by_rule(own, type, sizes, device)};
  auto add = [&](const CudaPlan& plan) {
    if (plan != plans.front()) plans.push_back(plan);
  };
  if (!is_libtorch(own.kernel)) add(own);
  for (CudaKernel fused : fused_kernels(variant_of(own.kernel), type, sizes, device)) add({fused, {}, 1});
  return plans;
}

std::string fused_name(CudaKernel fused) {
  return std::string(fused == CudaKernel::sdpa_cudnn   ? "cuDNN"
                     : fused == CudaKernel::sdpa_flash ? "flash"
                                                       : "mem-efficient") +
         " (LibTorch)";
}

std::string plan_name(AttentionVariant variant, const CudaPlan& plan) {
  const std::string kind = std::string(variant_name(variant)) + ": ";
  if (is_libtorch(plan.kernel)) return kind + fused_name(plan.kernel);
  return kind + "own, " + std::to_string(plan.tile.queries) + "x" + std::to_string(plan.tile.keys);
}

}  // namespace vggt
