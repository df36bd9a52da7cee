#include "attention/bench/contenders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "attention/attention.h"
#include "attention/bench/timing.h"
#include "attention/cpu/cpu.h"
#ifdef VGGT_CUDA
#include "attention/cuda/cuda.h"
#include "attention/tune/autotune.h"
#endif

namespace vggt {
namespace {

AttentionOptions options_for(const AttentionInputs& x, AttentionWant want) {
  AttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(x.q.size(3)));
  options.want = want;
  options.q_offsets = options.k_offsets = x.offsets;
  return options;
}

OurKernel on_cpu(const char* name, CpuIsa isa, at::ScalarType type) {
  OurKernel kernel;
  kernel.name = name;
  if (isa == CpuIsa::avx512_bf16 && type != at::kBFloat16) kernel.refusal = "takes bf16";
  if (isa > best_cpu_isa()) kernel.refusal = "this machine or this build lacks the instruction set";
  kernel.attend = [isa](const AttentionInputs& x, AttentionWant want) {
    return attention_cpu(x.q, x.k, x.v, options_for(x, want), isa);
  };
  kernel.structure = [](const AttentionInputs&) { return KernelStructure{kKeyTile, 1, 0, 0}; };
  return kernel;
}

#ifdef VGGT_CUDA
KernelStructure structure_of(const AttentionInputs& x, const AttentionOptions& options) {
  const CudaPlan plan = plan_cuda(x.q, x.k, options);
  KernelStructure structure{plan.tile.keys, plan.partitions, 0, 0};
  if (plan.partitions > 1) structure.summaries = plan.partitions * x.q.size(1) * x.q.size(2);
  while ((int64_t{1} << structure.merge_depth) < plan.partitions) ++structure.merge_depth;
  return structure;
}

OurKernel on_gpu(const char* name, AttentionVariant variant, at::Device device, at::ScalarType type,
                 int64_t dim) {
  OurKernel kernel;
  kernel.name = name;
  kernel.refusal = variant_refusal(variant, cuda_element(type), dim, cuda_device(device));
  auto with_variant = [variant](const AttentionInputs& x, AttentionWant want) {
    AttentionOptions options = options_for(x, want);
    options.variant = variant;
    return options;
  };
  kernel.attend = [with_variant](const AttentionInputs& x, AttentionWant want) {
    return attention(x.q, x.k, x.v, with_variant(x, want));
  };
  kernel.structure = [with_variant](const AttentionInputs& x) {
    return structure_of(x, with_variant(x, AttentionWant::output));
  };
  return kernel;
}
#endif

std::vector<OurKernel> all_kernels(at::Device device, at::ScalarType type, [[maybe_unused]] int64_t dim) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    return {on_gpu("strict", AttentionVariant::strict, device, type, dim),
            on_gpu("split", AttentionVariant::split, device, type, dim),
            on_gpu("turbo", AttentionVariant::turbo, device, type, dim),
            on_gpu("half", AttentionVariant::half, device, type, dim)};
  }
#endif
  TORCH_CHECK(device.is_cpu(), "bench: this build has no CUDA");
  return {on_cpu("baseline", CpuIsa::baseline, type), on_cpu("avx2", CpuIsa::avx2, type),
          on_cpu("avx512", CpuIsa::avx512, type), on_cpu("avx512_bf16", CpuIsa::avx512_bf16, type)};
}

std::string taken_on_cpu(const AttentionInputs& x) {
  constexpr std::array kNames = {"baseline", "avx2", "avx512", "avx512_bf16"};
  if (flash_pays_on_cpu(x.q, x.k, options_for(x, AttentionWant::output))) return "flash (LibTorch)";
  const CpuIsa best = best_cpu_isa();
  const bool widens = best == CpuIsa::avx512_bf16 && x.q.scalar_type() != at::kBFloat16;
  return kNames.at(static_cast<std::size_t>(widens ? CpuIsa::avx512 : best));
}

using Run = std::function<at::Tensor(const AttentionInputs&)>;

/// Packed sequences one after another, for backends that take only whole batches.
Run by_sequence(Run run) {
  return [run](const AttentionInputs& x) {
    if (!x.offsets.defined()) return run(x);
    std::vector<at::Tensor> parts;
    for (int64_t i = 0; i < x.sequences(); ++i) parts.push_back(run(sequence_of(x, i)));
    return at::cat(parts, 2);
  };
}

at::Tensor flash(const AttentionInputs& x) {
  if (!x.offsets.defined()) return std::get<0>(at::_scaled_dot_product_flash_attention(x.q, x.k, x.v));
  auto rows = [](const at::Tensor& t) { return t[0].transpose(0, 1); };  // [N,A,D]
  const at::Tensor out = std::get<0>(at::_flash_attention_forward(
      rows(x.q), rows(x.k), rows(x.v), x.offsets_on_device, x.offsets_on_device, x.longest, x.longest,
      /*dropout_p=*/0.0, /*is_causal=*/false, /*return_debug_mask=*/false));
  return out.transpose(0, 1).unsqueeze(0);
}

at::Tensor memory_efficient(const AttentionInputs& x) {
  if (!x.offsets.defined()) {
    return std::get<0>(at::_scaled_dot_product_efficient_attention(x.q, x.k, x.v, std::nullopt,
                                                                   /*compute_log_sumexp=*/false));
  }
  const at::Tensor out = std::get<0>(at::_efficient_attention_forward(
      x.q.transpose(1, 2), x.k.transpose(1, 2), x.v.transpose(1, 2), /*bias=*/std::nullopt,
      x.offsets_on_device, x.offsets_on_device, x.longest, x.longest, /*dropout_p=*/0.0,
      /*custom_mask_type=*/0));
  return out.transpose(1, 2);
}

at::Tensor cudnn(const AttentionInputs& x) {
  return std::get<0>(at::_scaled_dot_product_cudnn_attention(x.q, x.k, x.v, std::nullopt,
                                                             /*compute_log_sumexp=*/false));
}

at::Tensor flash_on_cpu(const AttentionInputs& x) {
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v));
}

/// Bytes that the system can still give to processes; infinite where it does not say.
double available_bytes() {
  return bytes_in("/proc/meminfo", "MemAvailable").value_or(INFINITY);
}

at::Tensor math(const AttentionInputs& x) {
  // Logits and weights. Linux would not refuse their memory, but kill the process that uses it.
  const double logits = static_cast<double>(x.q.size(1) * x.q.size(2)) * static_cast<double>(x.k.size(2));
  const double needed = 2 * 4 * logits;
  if (x.q.is_cpu() && needed > 0.8 * available_bytes()) throw std::bad_alloc();
  return std::get<0>(at::_scaled_dot_product_attention_math(x.q, x.k, x.v));
}

}  // namespace

std::vector<OurKernel> our_kernels(at::Device device, at::ScalarType type, int64_t dim,
                                   const std::vector<std::string>& names) {
  const std::vector<OurKernel> all = all_kernels(device, type, dim);
  auto named = [](const std::string& name) { return [&name](const auto& x) { return x.name == name; }; };
  std::vector<OurKernel> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find_if(all, named(name));
    if (found == all.end())
      throw std::invalid_argument("--variants: '" + name + "' is no kernel for " + device.str());
    chosen.push_back(*found);
  }
  if (names.empty())
    std::ranges::copy_if(all, std::back_inserter(chosen), [](auto& x) { return x.refusal.empty(); });
  return chosen;
}

AutomaticKernel automatic_kernel(at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    const auto tuner = std::make_shared<AttentionTuner>(device.has_index() ? device.index() : 0);
    const auto run = [tuner](const AttentionInputs& x) {
      AttentionOptions options = options_for(x, AttentionWant::output);
      options.tuner = tuner.get();
      return attention(x.q, x.k, x.v, options).out;
    };
    const auto taken = [tuner](const AttentionInputs&) {
      const std::vector<std::string> runs = tuner->runs();
      return runs.empty() ? std::string() : runs.back();
    };
    return {run, taken};
  }
#endif
  const auto run = [](const AttentionInputs& x) {
    return attention(x.q, x.k, x.v, options_for(x, AttentionWant::output)).out;
  };
  return {run, taken_on_cpu};
}

std::vector<Peer> peers(at::Device device, at::ScalarType type) {
  if (device.is_cpu()) return {{"flash", "", by_sequence(flash_on_cpu)}, {"math", "", by_sequence(math)}};
  // LibTorch does not check the type for cuDNN.
  const std::string halves = type == at::kFloat ? "takes bf16 and fp16" : "";
  return {{"flash", halves, flash},
          {"cudnn", halves, by_sequence(cudnn)},
          {"mem-efficient", "", memory_efficient},
          {"math", "", by_sequence(math)}};
}

}  // namespace vggt
