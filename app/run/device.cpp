#include "app/run/device.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "app/options/options.h"
#include "io/files/base64.h"
#include "io/files/numbers.h"
#ifdef VGGT_CUDA
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

constexpr int kFirstWithBf16AndTf32 = 80;

#ifdef VGGT_CUDA
void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}
#endif

struct Gpu {
  std::string name;
  int capability = 0;    // 80 for sm_80
  std::string identity;  // its UUID's bytes, in base64
};

Gpu gpu_at(int index) {
#ifdef VGGT_CUDA
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  const auto* uuid = reinterpret_cast<const uint8_t*>(properties.uuid.bytes);
  return {properties.name, 10 * properties.major + properties.minor,
          base64({uuid, sizeof properties.uuid.bytes})};
#else
  throw std::logic_error("no GPU " + std::to_string(index) + " in a build without CUDA");
#endif
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string needs_later_gpu(at::Device device) {
  return "needs a GPU of compute capability 8.0 or later, which " + device_name(device) + " is not";
}

}  // namespace

int gpu_count() {
#ifdef VGGT_CUDA
  return at::hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0;
#else
  return 0;
#endif
}

at::Device choose_device(const std::string& text) {
  const int gpus = gpu_count();
  if (text == "cpu" || (text == "auto" && gpus == 0)) return at::kCPU;
  check_device(text);
  if (text == "all" || text.find(',') != std::string::npos)
    throw std::invalid_argument("device: '" + text + "' is more than one; expected a single device here");
  const int index = text.starts_with("cuda:") ? parse_number<int>(text.substr(5)).value_or(0) : 0;
  if (index >= gpus) {
    throw std::invalid_argument("device: there is no '" + text + "' (GPUs found: " + std::to_string(gpus) +
                                ")");
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

std::vector<int> listed_gpus(const std::string& text) {
  std::vector<int> gpus;
  if (text == "all") {
    for (int i = 0; i < gpu_count(); ++i) gpus.push_back(i);
    if (gpus.empty()) throw std::invalid_argument("device: 'all' GPUs, and there is none");
    return gpus;
  }
  if (text.find(',') == std::string::npos) return gpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    if (!part.starts_with("cuda:") && !gpus.empty()) part = "cuda:" + part;
    if (!part.starts_with("cuda:"))
      throw std::invalid_argument("device: '" + text + "' is no list of GPUs such as cuda:0,1");
    const int gpu = choose_device(part).index();
    if (std::ranges::count(gpus, gpu) > 0)
      throw std::invalid_argument("device: '" + text + "' names a GPU twice");
    gpus.push_back(gpu);
  }
  return gpus;
}

AttentionVariant choose_attention(const std::string& text, at::Device device) {
  const auto variant = static_cast<AttentionVariant>(std::ranges::find(kVariantNames, text) - kVariantNames);
  if (variant != AttentionVariant::automatic && device.is_cpu()) {
    throw std::invalid_argument("attention: '" + text + "' needs a GPU; the CPU has one attention (auto)");
  }
  return variant;
}

Precision choose_precision(const std::string& asked, const std::string& attention, at::Device device) {
  const int capability = device.is_cuda() ? gpu_at(device.index()).capability : 0;
  const bool has_bf16 = capability >= kFirstWithBf16AndTf32;
  std::string text = asked;
  if (text == "auto") {
    const std::vector<std::string> precisions = precisions_for(attention);
    text = has_bf16 ? "bf16" : "fp32";
    if (!std::ranges::count(precisions, text)) text = precisions.front();
  }
  if (text == "fp32") return Precision::fp32;
  if (text == "bf16" && device.is_cpu()) {
    if (cpu_has_bf16()) return Precision::bf16;
    throw std::invalid_argument("precision: 'bf16' needs AVX512-BF16 or AMX, which this CPU lacks");
  }
  const bool possible = device.is_cuda() && (has_bf16 || text == "fp16");
  if (!possible) {
    throw std::invalid_argument("precision: '" + text + "' " +
                                (device.is_cpu() ? "needs a GPU" : needs_later_gpu(device)));
  }
  if (text == "tf32") return Precision::tf32;
  return text == "fp16" ? Precision::fp16 : Precision::bf16;
}

bool choose_heads_in_bf16(const std::string& text, Precision precision, at::Device device) {
  const auto possible = [&] {
    return device.is_cpu() || gpu_at(device.index()).capability >= kFirstWithBf16AndTf32;
  };
  if (text == "auto") return precision == Precision::bf16 || (precision == Precision::fp16 && possible());
  if (text == "bf16" && !possible())
    throw std::invalid_argument("head-precision: 'bf16' " + needs_later_gpu(device));
  return text == "bf16";
}

std::string precision_name(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return "fp64";
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  throw std::logic_error("unknown precision");
}

std::string device_name(at::Device device) {
  if (device.is_cuda()) return gpu_at(device.index()).name + " (" + device.str() + ")";
  return "CPU, " + std::to_string(at::get_num_threads()) + " threads";
}

std::string processor_name(at::Device device) {
  static const std::string cpu = cpu_model();  // the file has hundreds of lines
  return device.is_cuda() ? gpu_at(device.index()).name : cpu + ", " + device_name(device);
}

TunedGpu tuned_gpu([[maybe_unused]] at::Device device) {
  TunedGpu gpu;
#ifdef VGGT_CUDA
  gpu.name = gpu_at(device.index()).name;
  check(cudaDeviceGetAttribute(&gpu.multiprocessors, cudaDevAttrMultiProcessorCount, device.index()));
  check(cudaDriverGetVersion(&gpu.driver));
  check(cudaRuntimeGetVersion(&gpu.runtime));
#endif
  gpu.program = VGGT_VERSION "+" VGGT_KERNELS;
  gpu.libtorch = TORCH_VERSION;
  return gpu;
}

std::string gpu_identity(at::Device device) {
  return device.is_cuda() ? gpu_at(device.index()).identity : "";
}

void wait_for([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) check(cudaDeviceSynchronize());
#endif
}

int64_t free_bytes([[maybe_unused]] at::Device device) {
  std::size_t free = 0;
#ifdef VGGT_CUDA
  const c10::DeviceGuard guard(device);
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  if (at::getDeviceAllocator(at::kCUDA)->initialized()) {
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
    free +=
        static_cast<std::size_t>(stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current);
  }
#endif
  return static_cast<int64_t>(free);
}

DeviceMemory peak_device_memory([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda() && at::getDeviceAllocator(at::kCUDA)->initialized()) {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
    return {stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak};
  }
#endif
  return {};
}

std::map<std::string, std::string> torch_versions() {
  std::map<std::string, std::string> versions = {{"torch", TORCH_VERSION}};
#ifdef VGGT_CUDA
  versions["cuda"] = std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
#endif
  return versions;
}

}  // namespace vggt
