#include "model/cost_plan.h"

#include <algorithm>
#include <set>

#include "model/heads/head_constants.h"
#include "model/ranks/shares.h"

namespace vggt {
namespace {

/// Sizes as numbers of units, in double: the pairs of a long sequence pass 2^63 sooner than one would think.
struct Units {
  Units(const MemoryRequest& r, Place qkv)
      : rows(r.height / r.config.patch_size),
        columns(r.width / r.config.patch_size),
        S(static_cast<double>(Shares{r.frames, r.ranks}.most())),
        all(static_cast<double>(r.frames)),
        own(static_cast<double>(Shares{r.config.num_heads, r.ranks}.most()) /
            static_cast<double>(r.config.num_heads)),
        pixels(static_cast<double>(r.height * r.width)),
        P(static_cast<double>(r.config.special_tokens() + rows * columns)),
        ring(r.ranks > 1 && r.config.num_heads % r.ranks != 0 && qkv == Place::device) {}

  int64_t rows, columns;
  double S, all, own;  // frames of the rank that has most, of all; the largest share of the heads
  double pixels, P;    // of a frame: pixels, tokens
  bool ring;           // of ranks, in exact attention
};

/// A block whose tokens attend to so many keys each, of a rate.
double block_seconds(double tokens, double token_rate, double keys, double pair_rate, const Rates& rates) {
  return std::max(rates.block_least, tokens * token_rate + tokens * keys * pair_rate);
}

/// A merged block of one of several ranks. matching: the share of a matching by all channels in each block
/// that it takes.
double merged_seconds(const MergeCounts& counts, double matching, const Units& u, const Rates& rates) {
  const double share = u.S / u.all;  // of the tokens
  const auto N = static_cast<double>(counts.tokens), d = static_cast<double>(counts.destinations),
             M = static_cast<double>(counts.most_rows());
  return std::max(rates.block_least,
                  share * (N * rates.merged_token + (N - d) * d * matching * rates.match_pair) +
                      u.own * M * M * rates.pair);
}

/// Of a row of tokens, as ranks send it.
double row_bytes(const MemoryRequest& r) {
  const bool half = r.precision == Precision::bf16 || r.precision == Precision::fp16;
  return static_cast<double>(r.config.embed_dim) * (half ? 2 : 4);
}

/// What ranks that share heads wait for in a global block: three of its four tensors go beside products, all
/// but one piece of them.
double exchange_seconds(const MemoryRequest& r, const Units& u, double merged_rows, const Rates& rates) {
  if (r.ranks == 1) return 0;
  constexpr double kShown = 0.5;
  const double row = row_bytes(r) * (1 - 1 / static_cast<double>(r.ranks));
  const double projected = kShown * 3 * u.S * u.P * row;
  const double returned =
      merged_rows > 0 ? merged_rows * row * (1 + 1 / static_cast<double>(r.ranks)) : u.S * u.P * row;
  return (projected + returned) * rates.exchange + 4 * rates.exchange_least;
}

/// What a matching waits for: ranks get each other's destinations' metric, then the matches of their sources.
double matching_exchange(const MemoryRequest& r, const MergeCounts& counts, int64_t width,
                         const Rates& rates) {
  if (r.ranks == 1) return 0;
  constexpr double kMatch = 12;  // bytes of a score and a destination
  const auto d = static_cast<double>(counts.destinations), N = static_cast<double>(counts.tokens);
  const double metric =
      d * row_bytes(r) * static_cast<double>(width) / static_cast<double>(r.config.embed_dim);
  return (metric + (N - d) * kMatch) * (1 - 1 / static_cast<double>(r.ranks)) * rates.exchange +
         3 * rates.exchange_least;
}

/// Keys and values go from rank to rank beside the attention to those at hand.
double ring_seconds(const MemoryRequest& r, const Units& u, const Rates& rates) {
  const double N = u.S * u.P, steps = static_cast<double>(r.ranks - 1);
  return N * rates.block_token +
         std::max(N * u.all * u.P * rates.pair,
                  steps * (2 * N * row_bytes(r) * rates.exchange + rates.exchange_least));
}

double exact_seconds(const MemoryRequest& r, const Units& u, const Rates& rates) {
  if (u.ring) return ring_seconds(r, u, rates);
  const double keys = u.all * u.P * u.own * u.all / u.S;  // as if a rank had its own queries of all heads
  return block_seconds(u.S * u.P, rates.block_token, keys, rates.pair, rates) +
         exchange_seconds(r, u, 0, rates);
}

double embed_seconds(const MemoryRequest& r, const Units& u, const Rates& rates) {
  const double blocks = static_cast<double>(r.config.vit_depth);
  return u.S * u.pixels * rates.patch_pixel +
         blocks * block_seconds(u.S * u.P, rates.vit_token, u.P, rates.frame_pair, rates);
}

double aggregator_seconds(const MemoryRequest& r, const Units& u, const Rates& rates) {
  const std::set<int64_t> kept = kept_layers(r.config, r.heads);
  const int64_t blocks = kept.empty() ? 1 : *kept.rbegin() + 1;
  const double N = u.S * u.P;
  int64_t first_merged = r.merge ? std::min(r.merge->start, blocks) : blocks;
  double merged = 0;
  if (first_merged < blocks) {
    const MergeCounts counts = merge_counts(r.frames, u.rows, u.columns, r.config.special_tokens(), *r.merge);
    if (counts.most_merged == 0) first_merged = blocks;
    const int64_t width = metric_width(*r.merge, r.config.embed_dim);
    const auto refresh = static_cast<double>(r.merge->refresh);
    const double share = static_cast<double>(width) / static_cast<double>(r.config.embed_dim) / refresh;
    merged = merged_seconds(counts, share, u, rates) + matching_exchange(r, counts, width, rates) / refresh +
             exchange_seconds(r, u, static_cast<double>(counts.most_rows()), rates);
  }
  return static_cast<double>(blocks) * block_seconds(N, rates.block_token, u.P, rates.frame_pair, rates) +
         static_cast<double>(first_merged) * exact_seconds(r, u, rates) +
         static_cast<double>(blocks - first_merged) * merged + (kept.empty() ? 0 : N * rates.kept_token);
}

double track_seconds(const MemoryRequest& r, const Units& u, const Rates& rates) {
  const auto Q = static_cast<double>(r.query_points);
  const double iterations = Q * u.all * u.pixels * rates.track_pair +
                            (Q + static_cast<double>(kVirtualTracks)) * u.all * rates.track_token;
  return u.S * (rates.track_frame + u.pixels * rates.track_pixel) + std::max(rates.track_least, iterations);
}

double compute_seconds(const std::string& stage, const MemoryRequest& r, const Units& u, const Rates& rates) {
  if (stage == "patch_embed") return embed_seconds(r, u, rates);
  if (stage == "aggregator") return aggregator_seconds(r, u, rates);
  if (stage == "camera_head") return rates.camera_fixed + u.all * rates.camera_frame;
  if (stage == "depth_head") return u.S * (rates.depth_frame + u.pixels * rates.depth_pixel);
  if (stage == "point_head") return u.S * (rates.point_frame + u.pixels * rates.point_pixel);
  return track_seconds(r, u, rates);
}

/// Copies between host and device go both ways at once, and so do a file's beside them.
double copy_seconds(const Traffic& traffic, const Rates& rates) {
  return std::max({static_cast<double>(traffic.to_device) * rates.to_device,
                   static_cast<double>(traffic.to_host) * rates.to_host,
                   static_cast<double>(traffic.from_scratch) * rates.from_scratch +
                       static_cast<double>(traffic.to_scratch) * rates.to_scratch});
}

/// What a stage takes. Copies run beside the computation of stages that work in pieces of frames. In the
/// aggregator some still show, for some passes of a block do little with what they read; the share was
/// measured on an H200 with the residual stream on the host.
double with_copies(const StageSeconds& stage) {
  constexpr double kShown = 0.7;
  if (stage.stage == "camera_head" || stage.stage == "track_head") return stage.compute + stage.copy;
  const double shown = stage.stage == "aggregator" ? kShown * stage.copy : 0;
  return std::max(stage.compute + shown, stage.copy);
}

std::string stage_of(const StageMemory& memory) {
  const bool is_block = memory.stage == "frame_block" || memory.stage == "global_block";
  return is_block ? "aggregator" : memory.stage;
}

}  // namespace

std::vector<std::string> stages_of(const MemoryPlan& plan) {
  std::vector<std::string> stages;
  for (const StageMemory& memory : plan.stages) {
    const std::string stage = stage_of(memory);
    if (stages.empty() || stages.back() != stage) stages.push_back(stage);
  }
  return stages;
}

std::vector<StageSeconds> predict_seconds(const MemoryRequest& request, const MemoryPlan& plan,
                                          const Rates& rates) {
  const Units units(request, plan.schedule.qkv);
  std::vector<StageSeconds> stages;
  for (const StageMemory& memory : plan.stages) {
    const std::string stage = stage_of(memory);
    if (stages.empty() || stages.back().stage != stage)
      stages.push_back({stage, compute_seconds(stage, request, units, rates)});
    stages.back().copy += copy_seconds(memory.traffic, rates);
  }
  for (StageSeconds& stage : stages) stage.seconds = with_copies(stage);
  return stages;
}

namespace {

int64_t layers_of(const MemoryRequest& request) {
  return *kept_layers(request.config, request.heads).rbegin() + 1;
}

}  // namespace

void leave_out_layers(int64_t finished, const MemoryRequest& request, MemoryPlan& plan) {
  const bool embedded = finished > 0, all = finished >= layers_of(request);
  std::erase_if(plan.stages, [&](const StageMemory& stage) {
    return (embedded && stage.stage == "patch_embed") ||
           (all && (stage.stage == "frame_block" || stage.stage == "global_block"));
  });
  if (all) plan.scratch_bytes = plan.kept_bytes + plan.map_file_bytes;
}

void leave_out_layers(int64_t finished, const MemoryRequest& request, std::vector<StageSeconds>& stages) {
  const int64_t layers = layers_of(request);
  finished = std::clamp<int64_t>(finished, 0, layers);
  for (StageSeconds& stage : stages) {
    double left = 1;
    if (stage.stage == "aggregator") left -= static_cast<double>(finished) / static_cast<double>(layers);
    if (stage.stage == "patch_embed" && finished > 0) left = 0;
    for (double* seconds : {&stage.compute, &stage.copy, &stage.seconds}) *seconds *= left;
  }
}

double total_seconds(const std::vector<StageSeconds>& stages) {
  double seconds = 0;
  for (const StageSeconds& stage : stages) seconds += stage.seconds;
  return seconds;
}

}  // namespace vggt
