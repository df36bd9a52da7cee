#include "model/measure_rates.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/heads/head_constants.h"
#include "model/measure_copies.h"
#include "model/rate_probe.h"
#include "model/trunk/token_match.h"
#ifdef VGGT_CUDA
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::map<std::string, double>;

/// y = a·x0 + b·x1, as measured.
struct Sample {
  double x0, x1, y;
};
struct Fit {
  double a = 0, b = 0;
};

double fit_one(const std::vector<Sample>& samples, double Sample::*x) {
  double xy = 0, xx = 0;
  for (const Sample& s : samples) {
    xy += s.*x / s.y;
    xx += s.*x / s.y * (s.*x / s.y);
  }
  return xx > 0 ? xy / xx : 0;
}

/// The a and b, neither negative, with the least relative errors.
Fit fit(const std::vector<Sample>& samples) {
  double pp = 0, pq = 0, qq = 0, p = 0, q = 0;
  for (const Sample& s : samples) {
    const double u = s.x0 / s.y, v = s.x1 / s.y;
    pp += u * u;
    pq += u * v;
    qq += v * v;
    p += u;
    q += v;
  }
  const double determinant = pp * qq - pq * pq;
  const Fit both{(p * qq - q * pq) / determinant, (q * pp - p * pq) / determinant};
  if (determinant > 0 && both.a >= 0 && both.b >= 0) return both;
  return both.b < 0 || !(determinant > 0) ? Fit{fit_one(samples, &Sample::x0), 0}
                                          : Fit{0, fit_one(samples, &Sample::x1)};
}

/// Numbers of units in a probe.
struct Units {
  Units(const Probe& p, const Config& config)
      : S(static_cast<double>(p.frames)),
        P(static_cast<double>(config.special_tokens() + p.rows * p.columns)),
        pixels(static_cast<double>(p.rows * p.columns * config.patch_size * config.patch_size)),
        N(S * P) {}
  double S, P, pixels, N;  // frames; of a frame: tokens, pixels; all tokens
};

/// Everything that is measured on one device.
class Measurement {
 public:
  Measurement(const Config& config, const ModelOptions& options, int64_t max_bytes,
              const std::function<void()>& check_stop)
      : config_(config),
        options_(options),
        max_bytes_(std::min(max_bytes, options.budget.device)),
        check_stop_(check_stop) {
    options_.merge.reset();
    options_.frames_per_chunk = 0;
    options_.weights_on_host = false;
    options_.budget = {};
    const bool gpu = options.device.is_cuda(), wide = config.embed_dim > 512;
    many_.frames = gpu ? 128 : wide ? 6 : 8;
    large_.frames = gpu ? 48 : wide ? 1 : 4;
    if (gpu) few_.frames = 6;
  }

  Rates rates() {
    measure_trunk();
    measure_deeper();
    measure_merging();
    measure_copies(options_.device, rates_);
    return rates_;
  }

 private:
  /// Blocks, the camera head with a trunk of one block, the dense heads.
  void measure_trunk() {
    const ProbeNetwork network(config_, 0, 1, options_, check_stop_);
    tiny_seconds_ = network.time({1, 2, 2, Until::trunk});
    many_ = network.fitted(many_, max_bytes_, 2);
    large_ = network.fitted(large_, max_bytes_);
    many_seconds_ = network.time(many_);
    large_seconds_ = network.time(large_);
    fit_blocks();
    if (options_.device.is_cuda()) measure_long(network);
    if (options_.heads.camera) fit_camera(many_seconds_);
    measure_dense(network);
    if (options_.heads.tracks) measure_tracks(network);
  }

  void fit_blocks() {
    std::vector<Sample> frame_blocks;
    Sample global_block{};  // of the large frames
    double kept = 0;
    for (const auto& [probe, seconds] : {std::pair(&many_, &many_seconds_), {&large_, &large_seconds_}}) {
      const Units u(*probe, config_);
      const double frame = seconds->at("frame_block.0"), global = seconds->at("global_block.0");
      frame_blocks.push_back({u.N, u.N * u.P, frame});
      global_block = {u.N, u.N * u.N, global};
      if (seconds->contains("aggregator"))
        kept = std::max(0.0, (seconds->at("aggregator") - 2 * (frame + global)) / u.N);
    }
    const Fit of_frames = fit(frame_blocks);
    rates_.block_token = of_frames.a;
    rates_.frame_pair = of_frames.b;
    rates_.pair = pair_of(global_block);
    rates_.kept_token = kept;
    rates_.block_least = std::min(tiny_seconds_.at("frame_block.0"), tiny_seconds_.at("global_block.0"));
    const Units u(large_, config_), v(many_, config_);
    rates_.patch_pixel = fit_one({{u.S * u.pixels, 0, large_seconds_.at("patch_embed")},
                                  {v.S * v.pixels, 0, many_seconds_.at("patch_embed")}},
                                 &Sample::x0);
  }

  /// A pair of a global block: its tokens, pairs and seconds.
  double pair_of(const Sample& block) const {
    return std::max(block.y - block.x0 * rates_.block_token, 0.1 * block.y) / block.x1;
  }

  /// Pairs of sequences so long that their attention takes a tenth of a second: it is slower there, by 6 % on
  /// an H100.
  void measure_long(const ProbeNetwork& network) {
    constexpr double kSeconds = 0.1, kMostFrames = 128;
    Probe probe = large_;
    const double tokens = Units({1, probe.rows, probe.columns}, config_).N;
    probe.frames = static_cast<int64_t>(std::min(std::sqrt(kSeconds / rates_.pair) / tokens, kMostFrames));
    probe.until = Until::first_block;
    probe = network.fitted(probe, max_bytes_, large_.frames);
    if (probe.frames <= large_.frames) return;
    const double N = Units(probe, config_).N;
    rates_.pair = pair_of({N, N * N, network.time(probe).at("global_block.0")});
  }

  void fit_camera(const Seconds& many) {
    const Fit camera =
        fit({{1, 1, tiny_seconds_.at("camera_head")}, {1, Units(many_, config_).S, many.at("camera_head")}});
    rates_.camera_fixed = camera.a;
    rates_.camera_frame = camera.b;
  }

  void measure_dense(const ProbeNetwork& network) {
    if (!options_.heads.depth && !options_.heads.points) return;
    const Probe small = {few_.frames, 12, 16}, large = network.fitted(few_, max_bytes_);
    const Seconds of_small = network.time(small), of_large = network.time(large);
    const auto fit_head = [&](const char* stage, double& frame, double& pixel) {
      const Units u(small, config_), v(large, config_);
      const Fit head =
          fit({{u.S, u.S * u.pixels, of_small.at(stage)}, {v.S, v.S * v.pixels, of_large.at(stage)}});
      frame = head.a;
      pixel = head.b;
    };
    if (options_.heads.depth) fit_head("depth_head", rates_.depth_frame, rates_.depth_pixel);
    if (options_.heads.points) fit_head("point_head", rates_.point_frame, rates_.point_pixel);
  }

  void measure_tracks(const ProbeNetwork& network) {
    const bool gpu = options_.device.is_cuda();
    const int64_t patches = (int64_t{2} << config_.track_corr_levels) / config_.patch_size + 1;
    Probe small = {gpu ? 8 : 2, std::max<int64_t>(12, patches), std::max<int64_t>(16, patches), Until::end,
                   gpu ? 512 : 64};
    Probe large = small, least = small;
    large.rows = std::max(large_.rows, small.rows);
    large.columns = std::max(large_.columns, small.columns);
    large = network.fitted(large, max_bytes_);
    least.frames = least.queries = 1;
    const auto iterations = [](const Seconds& s) { return s.at("track_head") - s.at("track_maps"); };
    const Seconds of_small = network.time(small), of_large = network.time(large);
    const Units u(small, config_), v(large, config_);
    const Fit maps = fit(
        {{u.S, u.S * u.pixels, of_small.at("track_maps")}, {v.S, v.S * v.pixels, of_large.at("track_maps")}});
    const auto queries = static_cast<double>(small.queries);
    const auto sample = [&](const Units& z, const Seconds& s) {
      return Sample{(queries + kVirtualTracks) * z.S, queries * z.S * z.pixels, iterations(s)};
    };
    const Fit tracks = fit({sample(u, of_small), sample(v, of_large)});
    rates_.track_frame = maps.a;
    rates_.track_pixel = maps.b;
    rates_.track_token = tracks.a;
    rates_.track_pair = tracks.b;
    rates_.track_least = iterations(network.time(least));
  }

  /// DINOv2's blocks, and what more blocks cost the camera head: the same on networks that have them.
  void measure_deeper() {
    ModelOptions options = options_;
    options.heads = {.camera = true};
    const bool gpu = options_.device.is_cuda();
    const int64_t blocks = gpu ? 6 : 2;  // enough to tell from what else the stage does
    const ProbeNetwork network(config_, blocks, 2, options, check_stop_);
    std::vector<Sample> samples;
    Seconds camera;  // with a trunk of two blocks
    for (const auto& [probe, seconds] : {std::pair(&many_, &many_seconds_), {&large_, &large_seconds_}}) {
      Probe embed = *probe;
      // A GPU's time for one frame is that of launches; the CPU's is the same for each.
      const bool whole = gpu && probe == &many_;
      if (!whole) embed.until = Until::embedded;
      const Units u(embed, config_);
      const Seconds deep = network.time(embed);
      if (whole) camera = deep;
      const double block =
          (deep.at("patch_embed") - seconds->at("patch_embed")) / static_cast<double>(blocks);
      samples.push_back({u.N, 0, std::max(block - u.N * u.P * rates_.frame_pair, 0.1 * std::abs(block))});
    }
    rates_.vit_token = fit_one(samples, &Sample::x0);
    if (!options_.heads.camera || config_.camera_trunk_depth < 2) return;
    if (!gpu) camera = network.time({1, 2, 2});
    const Seconds& single = gpu ? many_seconds_ : tiny_seconds_;
    const double more = camera.at("camera_head") / single.at("camera_head") - 1;
    const double scale = 1 + std::max(0.0, more) * static_cast<double>(config_.camera_trunk_depth - 1);
    rates_.camera_fixed *= scale;
    rates_.camera_frame *= scale;
  }

  void measure_merging() {
    ModelOptions options = options_;
    options.heads = {.camera = true};
    const MergeOptions merge;
    options.merge = merge;
    const ProbeNetwork network(config_, 0, 0, options, check_stop_);
    Probe probe = many_;
    probe.until = Until::first_block;
    const MergeCounts counts =
        merge_counts(probe.frames, probe.rows, probe.columns, config_.special_tokens(), merge);
    const auto N = static_cast<double>(counts.tokens), d = static_cast<double>(counts.destinations),
               M = static_cast<double>(counts.most_rows());
    const double seconds = network.time(probe).at("global_block.0");
    rates_.match_pair = match_pair_seconds(options.device.is_cuda() ? 65536 : counts.tokens);
    const double pairs = (N - d) * d * rates_.match_pair + M * M * rates_.pair;
    rates_.merged_token = std::max(seconds - pairs, 0.1 * seconds) / N;
  }

  /// A quarter of the tokens are destinations.
  double match_pair_seconds(int64_t tokens) const {
    const int64_t destinations = tokens / 4, sources = tokens - destinations;
    const bool half = options_.device.is_cuda() &&
                      (options_.precision == Precision::bf16 || options_.precision == Precision::fp16);
    const at::ScalarType type = half ? options_.precision == Precision::bf16 ? at::kBFloat16 : at::kHalf
                                : options_.precision == Precision::fp64 ? at::kDouble
                                                                        : at::kFloat;
    const c10::InferenceMode guard;
    const at::Tensor rows = at::randn({sources + destinations, config_.embed_dim},
                                      at::device(options_.device).dtype(at::kFloat))
                                .to(type);  // [s + d,C]
    const at::Tensor from = rows.narrow(0, 0, sources), to = rows.narrow(0, sources, destinations);
    return repeated([&] { best_destinations(from, to); }) /
           (static_cast<double>(sources) * static_cast<double>(destinations));
  }

  /// The median of some runs after a first one.
  double repeated(const std::function<void()>& work) const {
    constexpr int kRuns = 3;
    std::vector<double> seconds;
    for (int run = 0; run <= kRuns; ++run) {
      synchronize(options_.device);
      const Clock::time_point begin = Clock::now();
      work();
      synchronize(options_.device);
      if (run > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return median(seconds);
  }

  Config config_;
  ModelOptions options_;
  int64_t max_bytes_;
  std::function<void()> check_stop_;
  // Many small frames, large ones, and those of the dense heads.
  Probe many_ = {16, 12, 16, Until::trunk}, large_ = {4, 28, 37, Until::trunk}, few_ = {1, 28, 37};
  Seconds tiny_seconds_, many_seconds_, large_seconds_;
  Rates rates_;
};

}  // namespace

Rates measure_rates(const Config& config, const ModelOptions& options, int64_t max_bytes,
                    const std::function<void()>& check_stop) {
  const at::Device device = options.device;
  const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional(device) : std::nullopt);
#ifdef VGGT_CUDA
  std::size_t free = 0, total = 0;
  if (device.is_cuda() && cudaMemGetInfo(&free, &total) == cudaSuccess)
    max_bytes = std::min(max_bytes, static_cast<int64_t>(free / 2));
#endif
  const Rates rates = Measurement(config, options, max_bytes, check_stop).rates();
#ifdef VGGT_CUDA
  if (device.is_cuda()) {
    // A peak that is reported is the run's.
    c10::cuda::CUDACachingAllocator::emptyCache();
    at::getHostAllocator(at::kCUDA)->empty_cache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
  }
#endif
  return rates;
}

}  // namespace vggt
