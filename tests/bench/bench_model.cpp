// Times the network with random weights of the VGGT-1B architecture (or a config.json's) on random images:
//   bench_model DEVICE PRECISION HEIGHTxWIDTH REPEATS FRAMES [FRAMES...]
// Prints seconds per stage (median of the warm runs, with their spread) and the peak memory of the device.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "model/state/random_weights.h"
#include "model/vggt.h"
#ifdef VGGT_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

void synchronize([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) C10_CUDA_CHECK(cudaDeviceSynchronize());
#endif
}

double peak_gib([[maybe_unused]] at::Device device, bool reset) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    const auto index = at::cuda::current_device();
    if (reset) c10::cuda::CUDACachingAllocator::resetPeakStats(index);
    return static_cast<double>(
               c10::cuda::CUDACachingAllocator::getDeviceStats(index).allocated_bytes[0].peak) /
           (1 << 30);
  }
#endif
  return reset ? 0 : -1;
}

struct StageTimer {
  at::Device device;
  std::map<std::string, double> seconds;
  Clock::time_point begin;

  void operator()(const vggt::StageReport& report) {
    if (report.tensor.defined() || (report.done != 0 && report.done != report.total)) return;
    synchronize(device);
    if (report.done == 0) begin = Clock::now();
    if (report.done == report.total)
      seconds[report.stage] += std::chrono::duration<double>(Clock::now() - begin).count();
  }
};

void bench(vggt::Vggt& model, at::Device device, int64_t frames, int64_t height, int64_t width, int repeats) {
  const at::Tensor images = at::randint(256, {frames, 3, height, width}, at::kByte);
  const vggt::FrameProvider provider{
      frames, height, width, [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
  bool finite = true;
  vggt::Sink sink;
  sink.cameras = [&](const vggt::CameraPrediction& c) { finite &= c.pose_enc.isfinite().all().item<bool>(); };
  sink.depth = [&](const vggt::DensePrediction& d) { finite &= d.depth.isfinite().all().item<bool>(); };
  std::map<std::string, std::vector<double>> times;
  peak_gib(device, true);
  for (int run = 0; run <= repeats; ++run) {
    StageTimer timer{device, {}, {}};
    synchronize(device);
    const auto begin = Clock::now();
    model.run(provider, {}, sink, [&](const vggt::StageReport& report) { timer(report); });
    synchronize(device);
    if (run == 0 && repeats > 0) continue;  // warm-up
    for (const auto& [stage, seconds] : timer.seconds) times[stage].push_back(seconds);
    times["total"].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("%lld frames %lldx%lld%s, peak %.2f GiB:", static_cast<long long>(frames),
              static_cast<long long>(height), static_cast<long long>(width), finite ? "" : " NOT FINITE",
              peak_gib(device, false));
  for (auto& [stage, seconds] : times) {
    std::sort(seconds.begin(), seconds.end());
    std::printf("  %s %.3f (%.3f-%.3f)", stage.c_str(), seconds[seconds.size() / 2], seconds.front(),
                seconds.back());
  }
  std::printf(" s\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: bench_model DEVICE PRECISION HEIGHTxWIDTH REPEATS FRAMES [FRAMES...]\n");
    return 2;
  }
  const at::Device device(argv[1]);
  const std::map<std::string, vggt::Precision> precisions = {{"fp32", vggt::Precision::fp32},
                                                             {"tf32", vggt::Precision::tf32},
                                                             {"bf16", vggt::Precision::bf16},
                                                             {"fp16", vggt::Precision::fp16}};
  const std::string size = argv[3];
  const int64_t height = std::stoll(size), width = std::stoll(size.substr(size.find('x') + 1));
  vggt::ModelOptions options;
  options.device = device;
  options.precision = precisions.at(argv[2]);
  options.heads = {true, true, false, false};
  const vggt::Config config;
  vggt::Vggt model(config, vggt::random_weights(config, options.heads, 1), options);
  std::printf("%s, %s, %d CPU threads\n", argv[1], argv[2], at::get_num_threads());
  for (int i = 5; i < argc; ++i) bench(model, device, std::stoll(argv[i]), height, width, std::stoi(argv[4]));
  return 0;
}
