// Times one scene on several GPUs beside one of them, with random weights of the VGGT-1B architecture:
//   torchrun --nproc-per-node 2 --no-python bench_ranks [--merge] [--compare|--together]
//     PRECISION HEIGHTxWIDTH REPEATS FRAMES...
//   bench_ranks --predict [--merge] PRECISION HEIGHTxWIDTH 0 FRAMES...
//
// Prints seconds (median of the warm runs, with their spread; of REPEATS 0 those of the first run) and the
// largest peak of allocated memory of a rank, both for rank 0 alone and for all ranks. Several ranks need a
// GPU each.
// --compare: also how far the results are apart, beside those of one GPU by two tilings, of which the other
// one streams its keys and values.
// --together: rank 0 does not run alone.
// --predict: nothing runs but what measures rates; prints what these let expect of so many ranks.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/cost_plan.h"
#include "model/measure_rates.h"
#include "model/random_weights.h"
#include "model/ranks/nccl_group.h"
#include "model/vggt.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Results {
  at::Tensor pose, depth, confidence;
};

struct Side {
  std::vector<double> seconds;
  std::map<std::string, double> stages;  // of the last run
  double peak_gib = 0;
  Results results;
};

struct Bench {
  const vggt::Vggt& model;
  at::Device device;
  int repeats;
  bool compare;
};

/// `run` of the model, warm, on this rank. Keeps results only where they are compared.
Side measure(const Bench& bench, const at::Tensor& images, const vggt::RunOptions& run) {
  Side side;
  const int64_t frames = images.size(0), height = images.size(2), width = images.size(3);
  const vggt::FrameProvider provider{
      frames, height, width, [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
  if (bench.compare) side.results.depth = at::empty({frames, height, width}, at::kFloat);
  vggt::Sink sink;
  sink.cameras = [&](const vggt::CameraPrediction& p) { side.results.pose = p.pose_enc; };
  sink.depth = [&](const vggt::DensePrediction& p) {
    if (bench.compare) side.results.depth.narrow(0, p.first_frame, p.depth.size(0)).copy_(p.depth);
  };
  Clock::time_point begin;
  const vggt::Observer observer = [&](const vggt::StageReport& report) {
    if (report.tensor.defined() || report.done != report.total) return;
    c10::cuda::device_synchronize();
    side.stages[report.stage] = std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (int i = 0; i <= bench.repeats; ++i) {
    if (run.group) run.group->texts("");
    c10::cuda::CUDACachingAllocator::resetPeakStats(bench.device.index());
    c10::cuda::device_synchronize();
    begin = Clock::now();
    bench.model.run(provider, {}, sink, i == bench.repeats ? observer : vggt::Observer(), run);
    c10::cuda::device_synchronize();
    if (run.group) run.group->texts("");
    if (i > 0 || bench.repeats == 0)
      side.seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(side.seconds.begin(), side.seconds.end());
  side.peak_gib =
      static_cast<double>(
          c10::cuda::CUDACachingAllocator::getDeviceStats(bench.device.index()).allocated_bytes[0].peak) /
      (1 << 30);
  return side;
}

double median(const Side& side) {
  return side.seconds[side.seconds.size() / 2];
}

void print(const char* name, const Side& side, double peak) {
  std::printf("  %-8s %.3f s (%.3f-%.3f), peak %.2f GiB; ends of stages:", name, median(side),
              side.seconds.front(), side.seconds.back(), peak);
  for (const auto& [stage, seconds] : side.stages) std::printf(" %s %.3f", stage.c_str(), seconds);
  std::printf("\n");
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

void print_difference(const char* name, const Results& got, const Results& expected) {
  std::printf("  %-22s pose %.2e, depth %.2e (norms)\n", name, difference(got.pose, expected.pose),
              difference(got.depth, expected.depth));
}

/// Random weights that are the same wherever they go: drawn on a GPU they are others than on a CPU.
vggt::TensorSource weights_drawn_on(at::Device device, const vggt::Config& config, const vggt::Heads& heads) {
  vggt::TensorSource drawn = vggt::random_weights(config, heads, 1), source;
  source.shapes = drawn.shapes;
  source.load = [device, load = drawn.load](const std::string& name, at::ScalarType type, at::Device wanted) {
    return load(name, type, device).to(wanted);
  };
  return source;
}

/// Predicted seconds by numbers of ranks: of one machine of eight GPUs, and of more over InfiniBand.
template <class Request>
void print_predictions(Request request_of, vggt::Rates rates) {
  constexpr double kInfiniBand = 50e9;  // bytes a second and GPU
  std::printf("  predicted:");
  for (const int64_t ranks : {1, 2, 4, 8, 16, 64}) {
    const vggt::MemoryRequest request = request_of(ranks);
    if (ranks > request.frames) continue;
    if (ranks > 8) rates.exchange = 1 / kInfiniBand;
    const vggt::MemoryPlan plan = vggt::plan_memory(request);
    std::printf("  %lld ranks %.3f s %.2f GiB", static_cast<long long>(ranks),
                vggt::total_seconds(vggt::predict_seconds(request, plan, rates)),
                static_cast<double>(plan.peak_bytes()) / (1 << 30));
  }
  std::printf("\n");
}

vggt::RunOptions other_tiling(vggt::RunOptions run, const vggt::MemoryRequest& request) {
  while (true) {
    const vggt::MemoryPlan plan = vggt::plan_memory(request, run.plans_passed);
    if (!plan.fits || plan.schedule.qkv != vggt::Place::device) return run;
    ++run.plans_passed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool merge = false, compare = false, together = false, predict = false;
  for (; argc > 1 && std::string(argv[1]).starts_with("--"); --argc, ++argv) {
    merge |= std::string(argv[1]) == "--merge";
    compare |= std::string(argv[1]) == "--compare";
    together |= std::string(argv[1]) == "--together";
    predict |= std::string(argv[1]) == "--predict";
  }
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: bench_ranks [--merge] [--compare|--together|--predict] PRECISION HEIGHTxWIDTH "
                 "REPEATS FRAMES...\n");
    return 2;
  }
  const auto place = vggt::rank_place([](const char* name) { return std::getenv(name); });
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(place ? place->local_rank : 0));
  const c10::cuda::CUDAGuard guard(device);
  std::optional<vggt::NcclGroup> group;
  if (place) group.emplace(*place, device);
  const bool speaks = !group || group->rank() == 0;
  const std::map<std::string, vggt::Precision> precisions = {
      {"fp32", vggt::Precision::fp32}, {"bf16", vggt::Precision::bf16}, {"fp16", vggt::Precision::fp16}};
  vggt::ModelOptions options;
  options.device = device;
  options.precision = precisions.at(argv[1]);
  options.heads = {.camera = true, .depth = true};
  const std::string size = argv[2];
  const int64_t height = std::stoll(size), width = std::stoll(size.substr(size.find('x') + 1));
  const vggt::Config config;
  const int repeats = std::stoi(argv[3]);
  const std::vector<std::string> counts(argv + 4, argv + argc);
  vggt::RunOptions run;
  if (merge) run.merge = vggt::MergeOptions{};
  const auto images_of = [&](const std::string& frames) {
    at::manual_seed(1);
    return at::randint(256, {std::stoll(frames), 3, height, width}, at::kByte);
  };
  const auto request_of = [&](const std::string& frames, int64_t ranks) {
    vggt::MemoryRequest request = vggt::memory_request(config, options);
    request.frames = std::stoll(frames);
    request.height = height;
    request.width = width;
    request.merge = run.merge;
    request.ranks = ranks;
    request.weights_on_host = ranks > 1;
    return request;
  };
  const vggt::TensorSource weights = weights_drawn_on(device, config, options.heads);
  vggt::Rates rates;
  const auto print_prediction = [&](const std::string& frames, int64_t ranks) {
    const vggt::MemoryRequest request = request_of(frames, ranks);
    const vggt::MemoryPlan plan = vggt::plan_memory(request);
    std::printf("           predicted %.2f GiB; ends of stages:",
                static_cast<double>(plan.peak_bytes()) / (1 << 30));
    double end = 0;
    for (const vggt::StageSeconds& stage : vggt::predict_seconds(request, plan, rates))
      std::printf(" %s %.3f", stage.stage.c_str(), end += stage.seconds);
    std::printf("\n");
  };
  // One rank first, as it runs alone, with its weights on the device.
  std::map<std::string, Side> alone;
  if (speaks) {
    const vggt::Vggt model(config, weights, options);
    rates = vggt::measure_rates(config, options);
    for (const std::string& frames : together ? std::vector<std::string>() : counts) {
      std::printf("%s frames %s, %s%s\n", frames.c_str(), argv[2], argv[1], merge ? ", merged" : "");
      print_predictions([&](int64_t ranks) { return request_of(frames, ranks); }, rates);
      if (predict) continue;
      const at::Tensor images = images_of(frames);
      const Side& one = alone[frames] = measure({model, device, repeats, compare}, images, run);
      print("1 rank", one, one.peak_gib);
      print_prediction(frames, 1);
      if (compare)
        print_difference(
            "another tiling",
            measure({model, device, 0, true}, images, other_tiling(run, request_of(frames, 1))).results,
            one.results);
      std::fflush(stdout);
    }
  }
  if (!group || predict) return 0;
  c10::cuda::CUDACachingAllocator::emptyCache();
  options.weights_on_host = true;
  const vggt::Vggt model(config, weights, options);
  run.group = &*group;
  for (const std::string& frames : counts) {
    const Side several = measure({model, device, repeats, compare}, images_of(frames), run);
    double peak = 0;
    for (const std::string& text : group->texts(std::to_string(several.peak_gib)))
      peak = std::max(peak, std::stod(text));
    if (!speaks) continue;
    std::printf("%s frames\n", frames.c_str());
    print((std::to_string(group->ranks()) + " ranks").c_str(), several, peak);
    print_prediction(frames, group->ranks());
    std::fflush(stdout);
    if (together) continue;
    const Side& one = alone.at(frames);
    std::printf("           speed-up %.3f, peak %.3f of one rank's\n", median(one) / median(several),
                peak / one.peak_gib);
    if (compare) print_difference("several ranks", several.results, one.results);
    std::fflush(stdout);
  }
  return 0;
}
