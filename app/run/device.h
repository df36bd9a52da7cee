#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "attention/tune/plan_cache.h"
#include "model/vggt.h"

namespace vggt {

/// GPUs that this build can use: a build without CUDA has none, whatever its LibTorch sees.
int gpu_count();
/// The device that --device names; auto: the first GPU, else the CPU. Throws std::invalid_argument if it is
/// absent.
at::Device choose_device(const std::string& text);
/// The GPUs that a list such as "cuda:0,1" or "cuda:0,cuda:1" names, or "all"; none for the name of one
/// device. Throws std::invalid_argument for lists that are malformed, name a GPU twice or one that is absent.
std::vector<int> listed_gpus(const std::string& text);
/// The variant that --attention names. Throws std::invalid_argument for any but auto on the CPU.
AttentionVariant choose_attention(const std::string& text, at::Device device);
/// The precision that --precision names; auto: what the choice of attention asks for, else bf16 on CUDA from
/// sm_80, else fp32. Throws std::invalid_argument for what the device cannot do.
Precision choose_precision(const std::string& text, const std::string& attention, at::Device device);
/// Whether the dense heads are in bf16, as --head-precision says; auto: beside a trunk in bf16 or fp16, where
/// the device can, as results lose nothing by it (tests/BENCHMARKS.md). Throws std::invalid_argument for GPUs
/// without bf16.
bool choose_heads_in_bf16(const std::string& text, Precision precision, at::Device device);

std::string precision_name(Precision precision);
/// Such as "CPU, 16 threads" or "NVIDIA H100 80GB HBM3 (cuda:0)".
std::string device_name(at::Device device);
/// What times depend on: a GPU's name; a CPU's model and its threads.
std::string processor_name(at::Device device);
/// What measured plans of attention depend on: the GPU, and the versions of driver, runtime, program and
/// LibTorch.
TunedGpu tuned_gpu(at::Device device);
/// What tells a GPU from all others, of other machines too; empty for the CPU.
std::string gpu_identity(at::Device device);
/// Returns when the device has done what it was given; at once on the CPU.
void wait_for(at::Device device);
/// Most memory on a device so far, bytes: of tensors, and as LibTorch reserved it for them. 0 on the CPU.
struct DeviceMemory {
  int64_t tensors = 0, reserved = 0;
};
DeviceMemory peak_device_memory(at::Device device);
/// Versions of torch and CUDA.
std::map<std::string, std::string> torch_versions();

/// Bytes of a GPU that no process uses, and those that LibTorch keeps in reserve for this one.
int64_t free_bytes(at::Device device);

}  // namespace vggt
