#include "model/bench/network_rows.h"

#include <optional>
#include <string>

#include "attention/bench/attempt.h"
#include "attention/bench/timing.h"
#include "model/random_weights.h"
#include "model/vggt.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

/// One way of running the network.
struct Way {
  const char* attention;
  RunOptions options;
  std::optional<double> peak_bytes = {};  // besides the weights
};

class Bench {
 public:
  Bench(const NetworkBench& bench, Pace& pace)
      : bench_(bench),
        pace_(pace),
        model_(bench.config, random_weights(bench.config, bench.options.heads, 1), bench.options),
        weight_bytes_(static_cast<double>(weight_bytes(memory_request(bench.config, bench.options)))) {}

  /// Of all ways of running so many frames; merging needs fewer than counted.
  double operations(int64_t frames) const {
    const Config& c = bench_.config;
    const auto C = static_cast<double>(c.embed_dim), P = static_cast<double>(frame_tokens()),
               N = static_cast<double>(frames) * P;
    const double of_token = static_cast<double>(2 * c.depth + c.vit_depth) * 24 * C * C +
                            static_cast<double>(c.depth) * 4 * C * (N + P) +
                            static_cast<double>(c.vit_depth) * 4 * C * P;
    return N * of_token * (frames < kMergedFrames ? 1 : 2);
  }

  bool fits_memory(int64_t frames) const {
    MemoryRequest request = memory_request(bench_.config, bench_.options);
    request.frames = frames;
    request.height = bench_.height;
    request.width = bench_.width;
    return plan_memory(request).fits;
  }

  void measure(int64_t frames, const ShowRow& show) {
    std::vector<Way> ways = {{"exact", {.budget = bench_.options.budget}}};
    if (frames >= kMergedFrames)
      ways.push_back({"merged", {.merge = MergeOptions(), .budget = bench_.options.budget}});
    const at::Tensor images =
        at::randint(256, {1, 3, bench_.height, bench_.width}, at::kByte).repeat({frames, 1, 1, 1});
    const FrameProvider provider{frames, bench_.height, bench_.width, [&](int64_t first, int64_t count) {
                                   return images.narrow(0, first, count);
                                 }};
    std::erase_if(ways, [&](Way& way) {  // those that fail; the call is also the warm-up
      const std::string failure = attempt([&] {
        way.peak_bytes = peak_bytes_of(bench_.options.device, [&] { run(provider, way.options); });
      });
      if (!failure.empty()) show(row_of(way, frames, {{"failure", failure}}));
      return !failure.empty();
    });
    std::vector<std::function<void()>> calls;
    for (Way& way : ways) calls.push_back([this, &provider, &way] { run(provider, way.options); });
    std::vector<std::string> failures(ways.size());
    const auto seconds = Turns{bench_.options.device, 5, pace_.left() / 3}.time(
        calls, [&](std::size_t i, const std::string& why) { failures[i] = why; });
    pace_.took(operations(frames), seconds);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      show(row_of(ways[i], frames,
                  failures[i].empty() ? figures(ways[i], frames, seconds[i])
                                      : ordered_json{{"failure", failures[i]}}));
    }
  }

 private:
  int64_t frame_tokens() const {
    const Config& c = bench_.config;
    return c.special_tokens() + (bench_.height / c.patch_size) * (bench_.width / c.patch_size);
  }

  ordered_json row_of(const Way& way, int64_t frames, const ordered_json& rest) const {
    ordered_json row = {{"frames", frames},
                        {"width", bench_.width},
                        {"height", bench_.height},
                        {"tokens", frames * frame_tokens()},
                        {"attention", way.attention}};
    row.update(rest);
    return row;
  }

  ordered_json figures(const Way& way, int64_t frames, const std::vector<double>& seconds) const {
    ordered_json row = {{"seconds", median(seconds)},
                        {"frames_per_second", static_cast<double>(frames) / median(seconds)},
                        {"rounds", seconds.size()}};
    if (way.peak_bytes) row["peak_bytes"] = *way.peak_bytes + weight_bytes_;
    return row;
  }

  void run(const FrameProvider& provider, const RunOptions& options) {
    Sink sink;
    sink.cameras = [](const CameraPrediction&) {};
    sink.depth = [](const DensePrediction&) {};
    model_.run(
        provider, {}, sink, [this](const StageReport&) { pace_.check_stop(); }, options);
  }

  NetworkBench bench_;
  Pace& pace_;
  Vggt model_;
  double weight_bytes_;
};

}  // namespace

void network_rows(const NetworkBench& bench, Pace pace, const ShowRow& show) {
  Bench network(bench, pace);
  for (const int64_t frames : bench.lengths) {
    if (!pace.fits(network.operations(frames)) || !network.fits_memory(frames)) break;
    network.measure(frames, show);
  }
}

}  // namespace vggt
