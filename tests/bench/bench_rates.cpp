// Measures the rates of the VGGT-1B architecture (or a config.json's) and prints, for each number of frames,
// predicted seconds beside measured ones, exact and merged; random weights on random images:
//   bench_rates [--config FILE] [--tracks POINTS] DEVICE PRECISION HEIGHTxWIDTH REPEATS FRAMES [FRAMES...]
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "model/cost_plan.h"
#include "model/measure_rates.h"
#include "model/random_weights.h"
#include "model/rate_probe.h"
#include "model/vggt.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::map<std::string, double> stage_seconds(const vggt::Vggt& model, const vggt::MemoryRequest& sizes,
                                            at::Device device) {
  const at::Tensor images =
      at::randint(256, {1, 3, sizes.height, sizes.width}, at::kByte).repeat({sizes.frames, 1, 1, 1});
  const vggt::FrameProvider provider{
      sizes.frames, sizes.height, sizes.width,
      [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
  at::Tensor queries;  // [Q,2]
  if (sizes.query_points > 0) queries = at::rand({sizes.query_points, 2}) * 100;
  std::map<std::string, double> seconds;
  std::string stage;
  Clock::time_point begin;
  model.run(provider, queries, {}, [&](const vggt::StageReport& report) {
    if (report.tensor.defined() || (report.done != 0 && report.done != report.total)) return;
    vggt::synchronize(device);
    if (report.stage != stage) begin = Clock::now();
    stage = report.stage;
    if (report.done == report.total) seconds[stage] = since(begin);
  });
  return seconds;
}

void compare(const vggt::Vggt& model, const vggt::MemoryRequest& sizes, const vggt::Rates& rates,
             at::Device device, int repeats) {
  std::map<std::string, std::vector<double>> all;
  for (int run = 0; run <= repeats; ++run) {
    for (const auto& [stage, seconds] : stage_seconds(model, sizes, device))
      if (run > 0 || repeats == 0) all[stage].push_back(seconds);
  }
  std::printf("%4lld frames %lldx%lld %s:", static_cast<long long>(sizes.frames),
              static_cast<long long>(sizes.height), static_cast<long long>(sizes.width),
              sizes.merge ? "merged" : "exact");
  double measured = 0;
  const auto predicted = vggt::predict_seconds(sizes, vggt::plan_memory(sizes), rates);
  for (const vggt::StageSeconds& stage : predicted) {
    const double seconds = vggt::median(all.at(stage.stage));
    measured += seconds;
    std::printf("  %s %.4f / %.4f (%+.0f %%)", stage.stage.c_str(), stage.seconds, seconds,
                100 * (stage.seconds / seconds - 1));
  }
  const double total = vggt::total_seconds(predicted);
  std::printf("  total %.3f / %.3f s (%+.1f %%)\n", total, measured, 100 * (total / measured - 1));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  vggt::Config config;
  int64_t query_points = 0;
  for (; argc > 2 && std::string(argv[1]).starts_with("--"); argc -= 2, argv += 2) {
    if (std::string(argv[1]) == "--tracks") {
      query_points = std::stoll(argv[2]);
    } else {
      std::ifstream file(argv[2]);
      config = vggt::read_config(std::string(std::istreambuf_iterator<char>(file), {}), {});
    }
  }
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: bench_rates [--config FILE] [--tracks POINTS] DEVICE PRECISION HEIGHTxWIDTH REPEATS "
                 "FRAMES [FRAMES...]\n");
    return 2;
  }
  at::Device device(argv[1]);
  if (device.is_cuda() && !device.has_index()) device.set_index(0);
  const std::map<std::string, vggt::Precision> precisions = {{"fp32", vggt::Precision::fp32},
                                                             {"tf32", vggt::Precision::tf32},
                                                             {"bf16", vggt::Precision::bf16},
                                                             {"fp16", vggt::Precision::fp16}};
  const std::string size = argv[3];
  vggt::ModelOptions options;
  options.device = device;
  options.precision = precisions.at(argv[2]);
  options.heads = {true, true, false, query_points > 0};
  at::globalContext().setAllowTF32CuBLAS(options.precision == vggt::Precision::tf32);
  const Clock::time_point begin = Clock::now();
  const vggt::Rates rates = vggt::measure_rates(config, options);
  std::printf("%s, %s, %d CPU threads; rates measured in %.2f s\n", argv[1], argv[2], at::get_num_threads(),
              since(begin));
  vggt::visit_rates(rates, [](const char* name, double rate) { std::printf("  %s %.3g\n", name, rate); });
  for (const bool merge : {false, true}) {
    if (merge) options.merge = vggt::MergeOptions{};
    const vggt::Vggt model(config, vggt::random_weights(config, options.heads, 1), options);
    vggt::MemoryRequest sizes = vggt::memory_request(config, options);
    sizes.query_points = query_points;
    sizes.height = std::stoll(size);
    sizes.width = std::stoll(size.substr(size.find('x') + 1));
    for (int i = 5; i < argc; ++i) {
      sizes.frames = std::stoll(argv[i]);
      compare(model, sizes, rates, device, std::stoi(argv[4]));
    }
  }
  return 0;
}
