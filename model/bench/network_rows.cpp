#include "model/bench/network_rows.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "attention/bench/attempt.h"
#include "attention/bench/timing.h"
#include "model/bench/network_pair.h"

namespace vggt {
namespace {

using nlohmann::ordered_json;

/// One way of running the network.
struct Way {
  const char* attention;  // null: LibTorch's network
  std::function<void()> run;
  std::optional<double> peak_bytes = {};  // besides the weights
  std::string failure = {};
  std::vector<double> seconds = {};
};

class Bench {
 public:
  Bench(const NetworkBench& bench, Pace& pace) : bench_(bench), pace_(pace), networks_(bench) {}

  /// Of all ways of running ours on so many frames; merging needs fewer than counted.
  double operations(int64_t frames) const {
    const Config& c = bench_.config;
    const auto C = static_cast<double>(c.embed_dim), P = static_cast<double>(frame_tokens()),
               N = static_cast<double>(frames) * P;
    const double of_token = static_cast<double>(2 * c.depth + c.vit_depth) * 24 * C * C +
                            static_cast<double>(c.depth) * 4 * C * (N + P) +
                            static_cast<double>(c.vit_depth) * 4 * C * P;
    return N * of_token * (frames < kMergedFrames ? 1 : 2);
  }

  /// Why so many frames are not measured; empty: they are.
  std::string why_not(int64_t frames) {
    networks_.prepare(frames);  // lengths rise
    if (!networks_.ours_fits(frames)) return kBeyondMemory;
    return pace_.fits(operations(frames)) ? "" : pace_.why_not();
  }

  void measure(int64_t frames, const ShowRow& show) {
    const at::Tensor images =
        at::randint(256, {1, 3, bench_.height, bench_.width}, at::kByte).repeat({frames, 1, 1, 1});
    const FrameProvider provider{frames, bench_.height, bench_.width, [&](int64_t first, int64_t count) {
                                   return images.narrow(0, first, count);
                                 }};
    std::vector<Way> ways = {our_way("exact", provider, std::nullopt)};
    if (frames >= kMergedFrames) ways.push_back(our_way("merged", provider, MergeOptions()));
    double round = 0;  // seconds
    for (Way& way : ways) round += try_out(way);
    const std::string left_out = add_theirs(ways, provider, round);
    time(ways, frames);
    const Way* theirs = ways.back().attention ? nullptr : &ways.back();
    for (const Way& way : ways) {
      if (!way.attention) continue;
      ordered_json row = row_of(way, frames);
      const bool exact = way.attention == std::string("exact");
      if (exact && theirs) add_side(row, *theirs);
      if (exact && !left_out.empty()) row["libtorch_left_out"] = left_out;
      show(row);
    }
    if (!left_out.empty()) leave_out(show, {{"frames", frames}, {"side", "LibTorch"}}, left_out);
  }

 private:
  int64_t frame_tokens() const {
    const Config& c = bench_.config;
    return c.special_tokens() + (bench_.height / c.patch_size) * (bench_.width / c.patch_size);
  }

  Way our_way(const char* attention, const FrameProvider& provider, std::optional<MergeOptions> merge) {
    return {attention, [this, &provider, merge] {
              networks_.ours().run(provider, {}, sink(), observer(),
                                   {.merge = merge, .budget = networks_.budget()});
            }};
  }

  /// The first call of a way, of which the seconds are.
  double try_out(Way& way) const {
    double seconds = 0;
    way.failure = attempt([&] {
      way.peak_bytes = peak_bytes_of(bench_.options.device,
                                     [&] { seconds = seconds_per_call(bench_.options.device, way.run); });
    });
    return seconds;
  }

  /// LibTorch's network as one more way, where memory and time allow; else why not. round: seconds of the
  /// first calls of the others.
  std::string add_theirs(std::vector<Way>& ways, const FrameProvider& provider, double round) const {
    if (!networks_.theirs_fits(provider.frames)) return kBeyondMemory;
    const auto has_time = [&] { return (kRounds + 1) * round * (1 + ratio_) <= pace_.left(); };
    // The first call of a process loads kernels: the second one tells more.
    if (!has_time() && ways.size() == 1 && ways[0].failure.empty() && (kRounds + 1) * round <= pace_.left())
      ways[0].failure = attempt([&] { round = seconds_per_call(bench_.options.device, ways[0].run); });
    if (!has_time()) return kBeyondTime;
    Way theirs{nullptr, [this, &provider] { networks_.theirs().run(provider, sink(), observer()); }};
    round += try_out(theirs);
    if (kRounds * round > pace_.left()) return kBeyondTime;
    ways.push_back(std::move(theirs));
    return "";
  }

  void time(std::vector<Way>& ways, int64_t frames) {
    std::vector<Way*> timed;
    std::vector<std::function<void()>> calls;
    for (Way& way : ways) {
      if (!way.failure.empty()) continue;
      timed.push_back(&way);
      calls.push_back(way.run);
    }
    const auto seconds = Turns{bench_.options.device, 5, pace_.left() / 3}.time(
        calls, [&](std::size_t i, const std::string& why) { timed[i]->failure = why; });
    std::vector<std::vector<double>> ours;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      timed[i]->seconds = seconds[i];
      if (timed[i]->attention) ours.push_back(seconds[i]);
    }
    pace_.took(operations(frames), ours);
    const Way &exact = ways.front(), &last = ways.back();
    if (!last.attention && !last.seconds.empty() && !exact.seconds.empty())
      ratio_ = median(last.seconds) / median(exact.seconds);
  }

  ordered_json row_of(const Way& way, int64_t frames) const {
    ordered_json row = {{"frames", frames},
                        {"width", bench_.width},
                        {"height", bench_.height},
                        {"tokens", frames * frame_tokens()},
                        {"attention", way.attention}};
    if (!way.failure.empty()) {
      row["failure"] = way.failure;
      return row;
    }
    row["seconds"] = median(way.seconds);
    row["frames_per_second"] = static_cast<double>(frames) / median(way.seconds);
    row["rounds"] = way.seconds.size();
    if (way.peak_bytes) row["peak_bytes"] = *way.peak_bytes + networks_.weight_bytes();
    return row;
  }

  void add_side(ordered_json& row, const Way& theirs) const {
    if (!theirs.failure.empty()) {
      row["libtorch_failure"] = theirs.failure;
      return;
    }
    row["libtorch_seconds"] = median(theirs.seconds);
    if (theirs.peak_bytes) row["libtorch_peak_bytes"] = *theirs.peak_bytes + networks_.weight_bytes();
    if (row.contains("seconds"))
      row["speedup"] = row["libtorch_seconds"].get<double>() / row["seconds"].get<double>();
  }

  static Sink sink() {
    Sink sink;
    sink.cameras = [](const CameraPrediction&) {};
    sink.depth = [](const DensePrediction&) {};
    return sink;
  }
  Observer observer() const {
    return [this](const StageReport&) { pace_.check_stop(); };
  }

  static constexpr double kRounds = 3;  // of Turns, at least: one that tells the time, and two that count
  NetworkBench bench_;
  Pace& pace_;
  NetworkPair networks_;
  double ratio_ = 1;  // of the seconds of LibTorch's network and ours, of the last length
};

}  // namespace

void network_rows(const NetworkBench& bench, Pace pace, const ShowRow& show) {
  Bench network(bench, pace);
  for (const int64_t frames : bench.lengths) {
    const std::string why = network.why_not(frames);
    if (why.empty()) {
      network.measure(frames, show);
    } else {
      leave_out(show, {{"frames", frames}}, why);
    }
  }
}

}  // namespace vggt
