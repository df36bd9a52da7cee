#include "model/model_options.h"

#include <ATen/Context.h>

#include <stdexcept>

#include "attention/cpu/cpu.h"
#ifdef VGGT_CUDA
#include <ATen/cuda/CUDAContext.h>

#include "attention/cuda/cuda.h"
#endif

namespace vggt {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw std::invalid_argument(message);
}

void check_precision(const ModelOptions& options) {
  if (options.heads_in_bf16 && options.precision == Precision::fp64)
    fail("heads in bf16 do not go with precision fp64");
  const bool exact = options.precision == Precision::fp32 || options.precision == Precision::fp64;
  if (options.device.is_cpu()) {
    if (options.precision == Precision::bf16 && !cpu_has_bf16())
      fail("bf16 needs a GPU, or a CPU with AVX512-BF16 or AMX");
    if (!exact && options.precision != Precision::bf16) fail("tf32 and fp16 need a GPU");
    return;
  }
#ifdef VGGT_CUDA
  if (!at::globalContext().hasCUDA()) fail("no CUDA device was found");
  const int count = at::cuda::device_count();
  if (options.device.has_index() && options.device.index() >= count) {
    fail("device " + options.device.str() + ": there are " + std::to_string(count));
  }
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(numbered(options.device).index());
  if ((options.precision == Precision::tf32 || options.precision == Precision::bf16 ||
       options.heads_in_bf16) &&
      properties->major < 8) {
    fail(std::string("tf32 and bf16 need compute capability 8.0; this is ") + properties->name);
  }
#else
  fail("this build has no CUDA");
#endif
}

#ifdef VGGT_CUDA
void check_variant(const ModelOptions& options, CudaElement type, int64_t head_dim) {
  const std::string refusal =
      variant_refusal(options.attention, type, head_dim, cuda_device(numbered(options.device)));
  if (!refusal.empty()) fail(std::string("attention: '") + variant_name(options.attention) + "' " + refusal);
}
#endif

void check_attention([[maybe_unused]] const Config& config, const ModelOptions& options) {
  const AttentionVariant variant = options.attention;
  if (variant == AttentionVariant::automatic) return;
  const std::string name = std::string("attention: '") + variant_name(variant) + "' ";
  if (options.device.is_cpu()) fail(name + "needs a GPU; the CPU has one attention");
  if (options.precision == Precision::fp64) fail(name + "is not for fp64, which has one attention");
  if (variant == AttentionVariant::turbo && options.precision != Precision::tf32)
    fail(name + "needs precision tf32");
#ifdef VGGT_CUDA
  const CudaElement type = options.precision == Precision::bf16   ? CudaElement::bf16
                           : options.precision == Precision::fp16 ? CudaElement::fp16
                                                                  : CudaElement::fp32;
  check_variant(options, type, config.embed_dim / config.num_heads);
  check_variant(options, type, config.embed_dim / config.vit_num_heads);
  if (options.heads.camera && variant != AttentionVariant::half)
    check_variant(options, CudaElement::fp32, 2 * config.embed_dim / config.camera_num_heads);
#endif
}

}  // namespace

bool cpu_has_bf16() {
  return at::hasMKLDNN() && (cpu_can("avx512_bf16") || cpu_can("amx_bf16"));
}

void check_model_options(const Config& config, const ModelOptions& options) {
  check_precision(options);
  check_attention(config, options);
  if (options.merge) check_merge_options(*options.merge);
}

}  // namespace vggt
