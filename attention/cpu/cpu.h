#pragma once
#include "attention/attention_types.h"
#include "attention/cpu/cpu_kernel.h"
#include "attention/cpu/cpu_policy.h"

namespace vggt {

/// Whether this machine has what LibTorch calls so, such as "amx_bf16".
bool cpu_can(const char* name);

/// The widest instruction set that both this build and this machine have.
CpuIsa best_cpu_isa();

/// Whether this instruction set has a kernel of bf16. The others compute on copies in fp32.
bool takes_bf16(CpuIsa isa);

/// The kernel for this instruction set and type, fp32, or bf16 where takes_bf16(). Throws c10::Error where
/// there is none.
CpuKernel cpu_kernel(CpuIsa isa, at::ScalarType type);

/// Whether LibTorch's flash attention is faster for these tensors than ours, and as exact: for outputs in
/// bf16 on matrix units, which ours do not use. Ours is faster everywhere else (attention/README.md).
bool flash_pays_on_cpu(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// attention() by LibTorch's flash attention on a CPU, where flash_pays_on_cpu().
AttentionResult attention_flash_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const AttentionOptions& options);

/// attention() on checked CPU tensors of type fp32, bf16 or fp16, with options.scale set: over tiles of
/// keys, without an N×N buffer, in fp32, or with products of bf16 where takes_bf16(isa). The instruction set
/// must be one the machine has; tests choose it.
AttentionResult attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, CpuIsa isa);

/// What the kernel keeps of queries between calls that each take some of the keys: sums relative to m, a
/// maximum of scores that are not scaled. `rounded`: of the weights as rounded to bf16, for the output.
struct CpuState {
  AttentionResult sums;  // m, s and w
  at::Tensor rounded;    // fp32 [B,A,Nq]
};

/// attention_cpu() with the keys in several calls: takes the next ones into `state`, which begins undefined.
/// Returns out [B,A,Nq,D] where they end the keys, else nothing; after that, or an exception, the state is of
/// no use. To the bit what one call for all keys and queries gives, if each call but the last takes a
/// multiple of kKeyTile and the queries of all calls are more than a few (kRowTile). Without packed
/// sequences.
at::Tensor attention_cpu_next(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, CpuIsa isa, CpuState& state, bool ends);

}  // namespace vggt
