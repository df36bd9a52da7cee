#pragma once
#include <functional>
#include <string>
#include <vector>

#include "attention/attention_types.h"
#include "attention/bench/inputs.h"

namespace vggt {

/// How a kernel cuts a call up.
struct KernelStructure {
  int64_t key_tile = 0, partitions = 1;
  int64_t summaries = 0;    // states written to memory, to be merged by a second pass
  int64_t merge_depth = 0;  // levels of that pass
};

/// One of our kernels: a variant on a GPU, the kernel of an instruction set on a CPU.
struct OurKernel {
  std::string name;
  std::string refusal;  // why it cannot run here; empty where it can
  std::function<AttentionResult(const AttentionInputs&, AttentionWant)> attend;
  std::function<KernelStructure(const AttentionInputs&)> structure;
};

/// Our kernels on this device with these names; without names all that are not refused. Throws
/// std::invalid_argument for a name that no kernel of the device has.
std::vector<OurKernel> our_kernels(at::Device device, at::ScalarType type, int64_t dim,
                                   const std::vector<std::string>& names);

/// attention() as it is without a choice of ours: on a GPU measured on first use, as the program has it, but
/// without the user's cache.
struct AutomaticKernel {
  std::function<at::Tensor(const AttentionInputs&)> run;  // out [1,A,N,D]
  /// What computed, after a run: such as "half: own, 128x64" or "flash (LibTorch)".
  std::function<std::string(const AttentionInputs&)> taken;
};
AutomaticKernel automatic_kernel(at::Device device);

/// A backend of LibTorch's scaled_dot_product_attention.
struct Peer {
  std::string name;
  std::string refusal;
  std::function<at::Tensor(const AttentionInputs&)> run;  // out [1,A,N,D]
};

/// LibTorch's backends on this device. They take packed sequences in one call where they can, else in turn.
std::vector<Peer> peers(at::Device device, at::ScalarType type);

}  // namespace vggt
