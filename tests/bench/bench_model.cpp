// Times the network with random weights of the VGGT-1B architecture (or a config.json's) on random images:
//   bench_model [--merge] [--protect R] [--refresh N] [--metric N] [--head-precision P] [--tracks POINTS]
//   [--gpu-gb X] DEVICE PRECISION HEIGHTxWIDTH REPEATS FRAMES [FRAMES...]
// (--head-precision: fp32, or bf16 for the dense heads)
// (--protect, --refresh and --metric: with --merge, as the program's --merge-protect and so on)
// (--gpu-gb: a budget of all that the process takes of the device, with the weights on the host)
// with the camera and the depth head, and with the tracker of so many query points where that is asked for.
// Prints seconds per stage (median of the warm runs, with their spread) and, on a GPU, the peak of allocated
// memory in each stage beside what the memory plan predicts.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "model/random_weights.h"
#include "model/vggt.h"
#ifdef VGGT_CUDA
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

void synchronize([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();  // the current one: main() has made it so
#endif
}

double peak_gib([[maybe_unused]] at::Device device, bool reset) {
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    const auto index = device.index();
    if (reset) c10::cuda::CUDACachingAllocator::resetPeakStats(index);
    return static_cast<double>(
               c10::cuda::CUDACachingAllocator::getDeviceStats(index).allocated_bytes[0].peak) /
           (1 << 30);
  }
#endif
  return reset ? 0 : -1;
}

/// Bytes of the device in use, by whomever, and those beside LibTorch's allocator; most of them at any call.
[[maybe_unused]] std::size_t g_most_used = 0, g_most_beside = 0;
void look_at_device([[maybe_unused]] at::Device device) {
#ifdef VGGT_CUDA
  std::size_t free = 0, total = 0;
  if (!device.is_cuda() || cudaMemGetInfo(&free, &total) != cudaSuccess) return;
  const auto reserved = static_cast<std::size_t>(
      c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).reserved_bytes[0].current);
  g_most_used = std::max(g_most_used, total - free);
  g_most_beside = std::max(g_most_beside, total - free - std::min(total - free, reserved));
#endif
}

struct StageTimer {
  at::Device device;
  std::map<std::string, double> seconds;
  std::map<std::string, double> peaks;  // GiB, weights included
  Clock::time_point begin;
  std::string stage;  // that has begun and not ended

  void operator()(const vggt::StageReport& report) {
    if (!report.warning.empty()) std::printf("  %s\n", report.warning.c_str());
    look_at_device(device);
    if (report.tensor.defined() || (report.done != 0 && report.done != report.total)) return;
    synchronize(device);
    if (report.done == 0 && report.stage != stage) {  // the tracker says 0 before each chunk of frames
      stage = report.stage;
      begin = Clock::now();
      peak_gib(device, true);
    }
    if (report.done != report.total) return;
    stage.clear();
    seconds[report.stage] += std::chrono::duration<double>(Clock::now() - begin).count();
    peaks[report.stage] = std::max(peaks[report.stage], peak_gib(device, false));
  }
};

/// The largest of the peaks, and beside each what the memory plan says, in GiB.
void print_peaks(const std::map<std::string, double>& peaks, const vggt::MemoryPlan& plan) {
  double most = 0;
  for (const auto& [stage, peak] : peaks) most = std::max(most, peak);
  std::printf("  most in use of the device: %.2f GB, beside the allocator %.2f GB\n",
              static_cast<double>(g_most_used) / 1e9, static_cast<double>(g_most_beside) / 1e9);
  std::printf("  plan: %s\n", vggt::plan_text(plan).c_str());
  std::printf("  peak %.2f GiB, predicted %.2f; weights predicted %.2f\n", most,
              static_cast<double>(plan.peak_bytes()) / (1 << 30),
              static_cast<double>(plan.weight_bytes) / (1 << 30));
  for (const vggt::StageMemory& stage : plan.stages) {
    const bool is_block = stage.stage == "frame_block" || stage.stage == "global_block";
    const auto measured = peaks.find(is_block ? "aggregator" : stage.stage);
    std::printf("    %-12s peak %.2f, predicted %.2f:", stage.stage.c_str(),
                measured == peaks.end() ? 0 : measured->second,
                static_cast<double>(plan.peak_bytes(stage.stage)) / (1 << 30));
    for (const vggt::MemoryTerm& term : stage.terms)
      std::printf("  %s %.2f", term.name.c_str(), static_cast<double>(term.bytes) / (1 << 30));
    std::printf("\n");
  }
}

void bench(const vggt::Vggt& model, const vggt::MemoryRequest& sizes, at::Device device, int repeats) {
  const int64_t frames = sizes.frames, height = sizes.height, width = sizes.width;
  const at::Tensor images = at::randint(256, {frames, 3, height, width}, at::kByte);
  const vggt::FrameProvider provider{
      frames, height, width, [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
  bool finite = true, looks = true;  // at the numbers, which takes a while
  const auto look = [&](const at::Tensor& x) {
    finite = finite && (!looks || x.isfinite().all().item<bool>());
  };
  vggt::Sink sink;
  sink.cameras = [&](const vggt::CameraPrediction& c) { look(c.pose_enc); };
  sink.depth = [&](const vggt::DensePrediction& d) { look(d.depth); };
  sink.tracks = [&](const vggt::TrackPrediction& t) { look(t.track); };
  at::Tensor queries;  // [Q,2]
  if (sizes.query_points > 0) {
    queries = at::rand({sizes.query_points, 2}) * at::tensor({width - 1.0, height - 1.0}).to(at::kFloat);
  }
  std::map<std::string, std::vector<double>> times;
  std::map<std::string, double> peaks;
  for (int run = 0; run <= repeats; ++run) {
    StageTimer timer{device, {}, {}, {}, {}};
    synchronize(device);
    const auto begin = Clock::now();
    const vggt::RunReport report =
        model.run(provider, queries, sink, [&](const vggt::StageReport& seen) { timer(seen); });
    for (const vggt::Overlap& o : {report.weights, report.attention}) {
      if (o.bytes > 0)
        std::printf("  streamed %.1f GB: copy %.0f ms, wait %.0f ms of %.0f, overlap %.3f\n",
                    static_cast<double>(o.bytes) / 1e9, o.copy_ms, o.wait_ms, o.total_ms, o.efficiency());
    }
    synchronize(device);
    looks = false;
    peaks = timer.peaks;
    if (run == 0 && repeats > 0) continue;  // warm-up
    for (const auto& [stage, seconds] : timer.seconds) times[stage].push_back(seconds);
    times["total"].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("%lld frames %lldx%lld%s:", static_cast<long long>(frames), static_cast<long long>(height),
              static_cast<long long>(width), finite ? "" : " NOT FINITE");
  for (auto& [stage, seconds] : times) {
    std::sort(seconds.begin(), seconds.end());
    std::printf("  %s %.3f (%.3f-%.3f)", stage.c_str(), seconds[seconds.size() / 2], seconds.front(),
                seconds.back());
  }
  std::printf(" s\n");
  if (device.is_cuda()) print_peaks(peaks, vggt::plan_memory(sizes));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t query_points = 0;
  bool merge = false, heads_in_bf16 = false;
  vggt::MergeOptions merging;
  double gpu_gb = 0;
  while (argc > 2 && std::string(argv[1]).starts_with("--")) {
    const std::string flag = argv[1];
    const int taken = flag == "--merge" ? 1 : 2;
    if (flag == "--merge") merge = true;
    if (flag == "--protect") merging.protect = std::stod(argv[2]);
    if (flag == "--refresh") merging.refresh = std::stoll(argv[2]);
    if (flag == "--metric") merging.metric = std::stoll(argv[2]);
    if (flag == "--head-precision") heads_in_bf16 = std::string(argv[2]) == "bf16";
    if (flag == "--tracks") query_points = std::stoll(argv[2]);
    if (flag == "--gpu-gb") gpu_gb = std::stod(argv[2]);
    argc -= taken;
    argv += taken;
  }
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: bench_model [--merge] [--protect R] [--refresh N] [--metric N] [--head-precision P] "
                 "[--tracks POINTS] [--gpu-gb X] "
                 "DEVICE PRECISION HEIGHTxWIDTH REPEATS FRAMES [FRAMES...]\n");
    return 2;
  }
  at::Device device(argv[1]);
#ifdef VGGT_CUDA
  if (device.is_cuda() && !device.has_index()) device.set_index(0);
  const c10::cuda::OptionalCUDAGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
#endif
  const std::map<std::string, vggt::Precision> precisions = {{"fp32", vggt::Precision::fp32},
                                                             {"tf32", vggt::Precision::tf32},
                                                             {"bf16", vggt::Precision::bf16},
                                                             {"fp16", vggt::Precision::fp16}};
  const std::string size = argv[3];
  const int64_t height = std::stoll(size), width = std::stoll(size.substr(size.find('x') + 1));
  vggt::ModelOptions options;
  options.device = device;
  options.precision = precisions.at(argv[2]);
  options.heads = {true, true, false, query_points > 0};
  options.heads_in_bf16 = heads_in_bf16;
  if (merge) options.merge = merging;
  if (gpu_gb > 0) {
    options.weights_on_host = true;
    constexpr double kProgram = 0.75e9, kFragments = 0.05;  // as in app/run/memory_limits.cpp
    options.budget.device = static_cast<int64_t>((1 - kFragments) * (gpu_gb * 1e9 - kProgram));
#ifdef VGGT_CUDA
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
    cudaDeviceSetLimit(cudaLimitStackSize, 128);  // as in app/cli/process.cpp
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::CUDACachingAllocator::setMemoryFraction((gpu_gb * 1e9 - kProgram) / static_cast<double>(total),
                                                       device.index());
#endif
  }
  at::globalContext().setAllowTF32CuBLAS(options.precision == vggt::Precision::tf32);
  const vggt::Config config;
  const vggt::Vggt model(config, vggt::random_weights(config, options.heads, 1), options);
  std::printf("%s, %s%s, %d CPU threads\n", argv[1], argv[2], heads_in_bf16 ? ", dense heads in bf16" : "",
              at::get_num_threads());
  vggt::MemoryRequest sizes = vggt::memory_request(config, options);
  sizes.query_points = query_points;
  sizes.height = height;
  sizes.width = width;
  for (int i = 5; i < argc; ++i) {
    sizes.frames = std::stoll(argv[i]);
    bench(model, sizes, device, std::stoi(argv[4]));
  }
  return 0;
}
