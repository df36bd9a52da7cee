#include "attention/bench/bench.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <fstream>

#include "attention/bench/lean_table.h"
#include "attention/bench/scan_table.h"
#include "attention/bench/table.h"
#include "attention/bench/verify.h"
#ifdef VGGT_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string machine(at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp gpu{};
    const cudaError_t error = cudaGetDeviceProperties(&gpu, device.index());
    TORCH_CHECK(error == cudaSuccess, "CUDA: ", cudaGetErrorString(error));
    return gpu.name;
  }
#endif
  TORCH_CHECK(device.is_cpu(), "bench: this build has no CUDA");
  return processor() + ", " + std::to_string(at::get_num_threads()) + " threads";
}

}  // namespace

AttentionBenchResult bench_attention(const AttentionBenchOptions& options, at::Device device,
                                     const Print& print) {
  const std::string name = machine(device);
  nlohmann::ordered_json json = {{"machine", name}, {"libtorch", TORCH_VERSION}};
  print(name + ", LibTorch " TORCH_VERSION "\n");
  AttentionBenchResult result;
  if (options.verify) {
    VerifyResult verified = verify_attention(options, device, print);
    json["verify"] = std::move(verified.json);
    result.exceeded = std::move(verified.exceeded);
  } else {
    json["rows"] = attention_table(options, device, print);
    json["lean"] = lean_table(options, device, print);
    json["scan"] = scan_table(options, device, print);
  }
  result.json = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  return result;
}

}  // namespace vggt
