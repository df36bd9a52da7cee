#include "attention/cpu/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <tuple>

#include "attention/packed_offsets.h"
#include "attention/result.h"

namespace vggt {
namespace {

AttentionStrides strides_of(const at::Tensor& x) {
  return {x.stride(0), x.stride(1), x.stride(2)};
}

AttentionParams params_for(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const AttentionResult& result) {
  AttentionParams p;
  p.q = q.const_data_ptr();
  p.k = k.const_data_ptr();
  p.v = v.const_data_ptr();
  p.element_bytes = q.element_size();
  p.q_strides = strides_of(q);
  p.k_strides = strides_of(k);
  p.v_strides = strides_of(v);
  p.batch = q.size(0);
  p.heads = q.size(1);
  p.queries = q.size(2);
  p.keys = k.size(2);
  p.dim = q.size(3);
  p.scale = static_cast<float>(options.scale);
  p.sequences = p.batch;
  p.longest = p.queries;
  if (options.q_offsets.defined()) {
    p.q_offsets = options.q_offsets.const_data_ptr<int64_t>();
    p.k_offsets = options.k_offsets.const_data_ptr<int64_t>();
    p.sequences = options.q_offsets.numel() - 1;
    p.longest = longest_sequence(options.q_offsets);
  }
  const at::Tensor& wide = result.out.defined() ? result.out : result.w;
  p.out_strides = strides_of(wide);
  auto data = [](const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; };
  p.out = result.out.defined() ? result.out.mutable_data_ptr() : nullptr;
  p.w = data(result.w);
  p.lse = data(result.lse);
  p.m = data(result.m);
  p.s = data(result.s);
  return p;
}

/// Task number `index`, counted by sequence, then head, then block.
CpuTask task_at(const AttentionParams& p, const CpuPolicy& policy, int64_t index) {
  const int64_t block = index % policy.blocks, row = index / policy.blocks;
  const int64_t head = row % p.heads, sequence = row / p.heads;
  int64_t batch = sequence, q_first = 0, q_end = p.queries, k_first = 0, k_end = p.keys;
  if (p.q_offsets) {
    batch = 0;
    q_first = p.q_offsets[sequence];
    q_end = p.q_offsets[sequence + 1];
    k_first = p.k_offsets[sequence];
    k_end = p.k_offsets[sequence + 1];
  }
  q_first += block * policy.block;
  auto offset = [&](const AttentionStrides& s, int64_t token) {
    return batch * s.batch + head * s.head + token * s.token;
  };
  auto at_token = [&](const void* base, const AttentionStrides& s, int64_t token) {
    return base ? static_cast<const char*>(base) + p.element_bytes * offset(s, token) : nullptr;
  };
  const int64_t line = (batch * p.heads + head) * p.queries + q_first;
  auto at_line = [&](float* base) { return base ? base + line : nullptr; };
  CpuTask task;
  task.sequence = q_end - q_first + block * policy.block;
  task.queries = std::clamp<int64_t>(q_end - q_first, 0, policy.block);
  task.keys = k_end - k_first;
  task.q = at_token(p.q, p.q_strides, q_first);
  task.k = at_token(p.k, p.k_strides, k_first);
  task.v = at_token(p.v, p.v_strides, k_first);
  if (p.out) task.out = static_cast<char*>(p.out) + p.element_bytes * offset(p.out_strides, q_first);
  if (p.w) task.w = p.w + offset(p.out_strides, q_first);
  task.lse = at_line(p.lse);
  task.m = at_line(p.m);
  task.s = at_line(p.s);
  task.rounded = at_line(p.rounded);
  return task;
}

/// Threads draw tasks until none is left.
void run_tasks(const AttentionParams& p, const CpuPolicy& policy, CpuKernel kernel) {
  const int64_t tasks = p.sequences * p.heads * policy.blocks;
  std::atomic<int64_t> next{0};
  auto work = [&] {
    const size_t bytes = (cpu_scratch_floats(policy.block, p.dim) * sizeof(float) + 63) / 64 * 64;
    const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, bytes), &std::free);
    if (!scratch) throw std::bad_alloc();
    for (;;) {
      const int64_t first = next.fetch_add(policy.grain);
      if (first >= tasks) return;
      for (int64_t i = first; i < std::min(first + policy.grain, tasks); ++i) {
        const CpuTask task = task_at(p, policy, i);
        if (task.queries > 0) kernel(p, task, static_cast<float*>(scratch.get()));
      }
    }
  };
  if (policy.threads == 1) {
    work();
  } else {
    at::parallel_for(0, policy.threads, 1, [&](int64_t, int64_t) { work(); });
  }
}

/// Whether attention of this type is computed on copies in fp32.
bool must_widen(at::ScalarType type, CpuIsa isa) {
  return type == at::kHalf || (type == at::kBFloat16 && !takes_bf16(isa));
}

at::Tensor widened(const at::Tensor& x) {
  return x.to(x.options().dtype(at::kFloat), /*non_blocking=*/false, /*copy=*/false,
              at::MemoryFormat::Contiguous);
}

}  // namespace

bool cpu_can(const char* name) {
  static const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find(name);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool();
}

bool flash_pays_on_cpu(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  constexpr int64_t kFewest = 256, kUnit = 32;  // tokens; numbers that a matrix unit takes of a row
  static const bool has_matrix_units = cpu_can("amx_bf16");
  return has_matrix_units && q.scalar_type() == at::kBFloat16 && q.numel() > 0 && q.size(2) >= kFewest &&
         k.size(2) >= kFewest && q.size(3) % kUnit == 0 && options.want == AttentionWant::output &&
         !options.q_offsets.defined() && options.scale > 0;
}

AttentionResult attention_flash_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const AttentionOptions& options) {
  const at::Tensor out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      q, k, v, /*dropout_p=*/0.0, /*is_causal=*/false, /*attn_mask=*/std::nullopt, options.scale));
  AttentionResult result;
  result.out = joinable(out, q.size(3));
  return result;
}

bool takes_bf16(CpuIsa isa) {
  return isa == CpuIsa::avx512_bf16;
}

CpuKernel cpu_kernel(CpuIsa isa, at::ScalarType type) {
  TORCH_CHECK(type == at::kFloat || (type == at::kBFloat16 && takes_bf16(isa)),
              "attention: the instruction set asked for has no kernel of ", type);
#if defined(__x86_64__)
  if (type == at::kBFloat16) return attend_avx512_bf16;
  if (isa >= CpuIsa::avx512) return attend_avx512;
  if (isa == CpuIsa::avx2) return attend_avx2;
#endif
  TORCH_CHECK(isa == CpuIsa::baseline,
              "attention: this build has no kernel for the instruction set asked for");
  return attend_baseline;
}

CpuIsa best_cpu_isa() {
#if defined(__x86_64__)
  static const bool fma = __builtin_cpu_supports("fma"), avx512 = fma && __builtin_cpu_supports("avx512f");
  static const CpuIsa best =
      avx512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bf16")
          ? CpuIsa::avx512_bf16
      : avx512                                ? CpuIsa::avx512
      : fma && __builtin_cpu_supports("avx2") ? CpuIsa::avx2
                                              : CpuIsa::baseline;
  return best;
#else
  return CpuIsa::baseline;
#endif
}

AttentionResult attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, CpuIsa isa) {
  const at::ScalarType type = q.scalar_type();
  if (must_widen(type, isa)) {
    AttentionResult result = attention_cpu(widened(q), widened(k), widened(v), options, isa);
    if (result.out.defined()) result.out = result.out.to(type);
    return result;
  }
  AttentionResult result = empty_result(q, options.want);
  const AttentionParams p = params_for(q, k, v, options, result);
  if (q.numel() > 0) run_tasks(p, choose_cpu_policy(p, isa, at::get_num_threads()), cpu_kernel(isa, type));
  return result;
}

at::Tensor attention_cpu_next(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, CpuIsa isa, CpuState& state, bool ends) {
  const at::ScalarType type = q.scalar_type();
  if (must_widen(type, isa)) {
    const at::Tensor out = attention_cpu_next(widened(q), widened(k), widened(v), options, isa, state, ends);
    return ends ? out.to(type) : out;
  }
  const bool begins = !state.rounded.defined();
  if (begins) {
    state.sums = empty_result(q, AttentionWant::state);
    state.rounded = at::empty_like(state.sums.s);
  }
  AttentionResult result = state.sums;
  if (ends) result.out = empty_joinable(q.sizes(), q.options());
  AttentionParams p = params_for(q, k, v, options, result);
  p.begins = begins;
  p.ends = ends;
  p.rounded = state.rounded.mutable_data_ptr<float>();
  if (q.numel() > 0) run_tasks(p, choose_cpu_policy(p, isa, at::get_num_threads()), cpu_kernel(isa, type));
  return result.out;
}

}  // namespace vggt
