#include "model/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "model/heads/head_constants.h"
#include "model/layers/work_sizes.h"

namespace vggt {
namespace {

// Tokens that the patch embedder, and bytes that four of a dense head's largest maps, may take at once. More
// frames at a time make neither faster; on the CPU fewer stay closer to the caches.
constexpr int64_t kEmbedTokensCuda = 65536, kEmbedTokensCpu = 4096;
constexpr int64_t kDenseBytesCuda = int64_t{3} << 30, kDenseBytesCpu = int64_t{256} << 20;
// The tracker's feature maps: how many stay on a GPU, and how many come from host memory at once.
constexpr int64_t kTrackDeviceBytes = int64_t{6} << 30, kTrackHostBytes = int64_t{512} << 20;
constexpr int64_t kCorrelationElements = int64_t{1} << 26;

using Terms = std::vector<MemoryTerm>;

int64_t sum(const Terms& terms) {
  return std::accumulate(terms.begin(), terms.end(), int64_t{0},
                         [](int64_t bytes, const MemoryTerm& term) { return bytes + term.bytes; });
}

/// The largest of several steps of a stage.
Terms largest(const std::vector<Terms>& steps) {
  return *std::max_element(steps.begin(), steps.end(),
                           [](const Terms& a, const Terms& b) { return sum(a) < sum(b); });
}

Terms joined(Terms a, const Terms& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int64_t operand_bytes(Precision precision) {
  return precision == Precision::fp64                                   ? 8
         : precision == Precision::bf16 || precision == Precision::fp16 ? 2
                                                                        : 4;
}
int64_t state_bytes(Precision precision) {
  return precision == Precision::fp64 ? 8 : 4;
}

/// Sizes that every stage counts with.
struct Sizes {
  explicit Sizes(const MemoryRequest& r)
      : S(r.frames),
        H(r.height),
        W(r.width),
        C(r.config.embed_dim),
        rows(r.height / r.config.patch_size),
        columns(r.width / r.config.patch_size),
        P(r.config.special_tokens() + rows * columns),
        operand(operand_bytes(r.precision)),
        state(state_bytes(r.precision)) {}

  int64_t S, H, W, C;
  int64_t rows, columns;   // of patches in a frame
  int64_t P;               // tokens of a frame
  int64_t operand, state;  // bytes of a number in the blocks' products, and in everything else
};

/// Bytes of the parts that attention makes of one element each of q, k and v. operand: bytes of an element.
int64_t attention_part_bytes(const MemoryRequest& r, int64_t operand) {
  if (!r.gpu || operand != 4) return 0;
  const bool automatic = r.attention == AttentionVariant::automatic && r.gpu->mma;
  const bool tf32 = r.precision == Precision::tf32;
  if (r.attention == AttentionVariant::split || (automatic && !tf32)) return 3 * 4;
  if (r.attention == AttentionVariant::turbo || (automatic && tf32)) return 3 * 2;
  return 0;
}

/// Bytes of the parts of rows [rows,in] that enter a product of fp32 split into fp16. operand: bytes of an
/// element; the heads' are fp32 beside an aggregator in bf16 or fp16 too.
int64_t product_part_bytes(const MemoryRequest& r, int64_t operand, int64_t rows, int64_t in) {
  if (!r.gpu || !r.gpu->wgmma || operand != 4 || r.precision == Precision::tf32) return 0;
  return std::min(rows * in * 4, kSplitPieceBytes);
}

/// A block's own tensors beside its residual, for `tokens` tokens of `dim` channels.
Terms block_terms(const MemoryRequest& r, int64_t tokens, int64_t dim, int64_t operand, bool few_rows) {
  const int64_t state = state_bytes(r.precision), rows = std::min(tokens, block_rows(dim));
  const int64_t cast = operand < state ? rows * dim * operand : 0;
  const auto parts = [&](int64_t in) { return few_rows ? 0 : product_part_bytes(r, operand, rows, in); };
  const MemoryTerm qkv{"q, k, v", tokens * 3 * dim * operand},
      mixed{"attention's output", tokens * dim * operand};
  const MemoryTerm norm{"norm of a piece of rows", rows * dim * state};
  return largest({{qkv, norm, {"its cast", cast}, {"its parts", parts(dim)}},
                  {qkv, mixed, {"parts of q, k, v", tokens * dim * attention_part_bytes(r, operand)}},
                  {mixed,
                   norm,
                   {"hidden layer of a piece of rows", rows * 4 * dim * operand},
                   {"its input's cast or its output", std::max(cast, rows * dim * operand)},
                   {"its parts", parts(4 * dim)}}});
}

/// The same of a global block that merges tokens.
Terms merged_block_terms(const MemoryRequest& r, const Sizes& z, const MergeCounts& counts) {
  const int64_t N = counts.tokens, M = counts.most_rows(), d = counts.destinations;
  const int64_t rows = std::min(N, block_rows(z.C)), of_rows = rows * z.C;
  const int64_t sources = std::min(N - d, std::max<int64_t>(1, kMatchScores / d));  // at a time
  const auto parts = [&](int64_t in) { return product_part_bytes(r, z.operand, rows, in); };
  const int64_t score_operand = r.gpu ? z.operand : z.state;
  const MemoryTerm metric{"metric", N * z.C * score_operand},
      norm{"norm of a piece of rows", of_rows * z.state},
      cast{"its cast", z.operand < z.state ? of_rows * z.operand : 0},
      hidden{"hidden layer of a piece of rows", 4 * of_rows * z.operand},
      beside{"its input's cast or its output", of_rows * z.operand};
  const MemoryTerm plan{"merge plan", 8 * (2 * N + counts.protected_tokens + M)},  // of int64
      qkv{"q, k, v", N * 3 * z.C * z.operand}, merged{"merged q, k, v", M * 3 * z.C * z.operand},
      mixed{"attention's output", M * z.C * z.operand}, projected{"its projection", mixed.bytes};
  return largest({{metric,
                   {"destinations' metric", d * z.C * score_operand},
                   {"sources' metric", sources * z.C * score_operand},
                   {"scores", sources * std::min(d, kMatchScores) * z.state}},
                  {plan, qkv, norm, cast, {"its parts", parts(z.C)}},
                  {plan, qkv, merged},
                  {plan, merged, mixed, {"parts of q, k, v", M * z.C * attention_part_bytes(r, z.operand)}},
                  {plan, mixed, projected, {"its parts", parts(z.C)}},
                  {plan, projected, norm, hidden, beside, {"its parts", parts(4 * z.C)}}});
}

Terms kept_terms(const Sizes& z, int64_t layers) {
  return {{"kept layers", layers * z.S * z.P * 2 * z.C * z.state}};
}

StageMemory patch_embed_stage(const MemoryRequest& r, const Sizes& z, int64_t frames) {
  const int64_t tokens = frames * z.P, pixels = frames * 3 * z.H * z.W;
  const Terms chunk = {{"residual", z.S * z.P * z.C * z.state},
                       {"frames of a chunk", 2 * pixels * z.state},
                       {"patches of a chunk", frames * z.rows * z.columns * z.C * (z.operand + z.state)},
                       {"tokens of a chunk", tokens * z.C * z.state}};
  return {"patch_embed", joined(chunk, block_terms(r, tokens, z.C, z.operand, false))};
}

StageMemory block_stage(const char* stage, const Sizes& z, int64_t kept_layers, const Terms& block) {
  const Terms tokens = joined({{"residual", z.S * z.P * z.C * z.state}}, kept_terms(z, kept_layers));
  return {stage, joined(tokens, block)};
}

/// The larger of the kinds of global blocks that run, up to block `last`.
Terms global_block_terms(const MemoryRequest& r, const Sizes& z, const Terms& exact, int64_t last) {
  if (!r.merge || r.merge->start > last) return exact;
  const MergeCounts counts = merge_counts(z.S, z.rows, z.columns, r.config.special_tokens(), *r.merge);
  if (counts.most_merged == 0) return exact;
  const Terms merged = merged_block_terms(r, z, counts);
  return r.merge->start == 0 ? merged : largest({exact, merged});
}

StageMemory camera_stage(const MemoryRequest& r, const Sizes& z, int64_t kept_layers) {
  // Of 2C numbers a frame: the token, its norm, the modulation, sums of them.
  constexpr int64_t kVectors = 10;
  const Terms head = {{"vectors of all frames", kVectors * z.S * 2 * z.C * z.state}};
  return {"camera_head",
          joined(joined(kept_terms(z, kept_layers), head), block_terms(r, z.S, 2 * z.C, z.state, true))};
}

/// What a dense head holds for a chunk of frames. outputs: its channels; 0 for the tracker's feature
/// extractor, whose maps are smaller than the frames.
Terms dense_terms(const MemoryRequest& r, const Sizes& z, int64_t frames, int64_t features, int64_t outputs) {
  const int64_t patches = z.rows * z.columns, a = frames * z.state;
  const int64_t deepest = ((z.rows + 1) / 2) * ((z.columns + 1) / 2);
  const int64_t ratio = outputs > 0 ? 1 : kTrackStride, narrow = outputs > 0 ? features / 2 : features;
  const int64_t wide = a * 64 * patches * features;                 // the fused map, eight a patch's side
  const int64_t fused = a * 64 * patches * narrow;                  // after output_conv1
  const int64_t full = a * (z.H / ratio) * (z.W / ratio) * narrow;  // resized
  const bool exact = r.gpu && r.precision == Precision::fp32;       // convolutions as products
  const auto exact_bytes = [&](int64_t x) { return exact ? x + kConvPieceBytes : 0; };  // padded, a piece
  const MemoryTerm maps{"maps of four levels",
                        a * (16 + 4 + 1) * patches * features + a * deepest * features};
  std::vector<Terms> steps = {
      {maps, {"fused map", wide}, {"its output", fused}, {"convolution", exact_bytes(wide)}},
      {maps, {"fused map", fused}, {"resized map", full}}};
  if (outputs > 0) {
    steps.push_back({maps,
                     {"resized map", full},
                     {"its output", a * kDptLastChannels * z.H * z.W},
                     {"convolution", exact_bytes(full)}});
  } else {
    const int64_t pyramid = full + full / 3;
    steps.push_back({{"resized map", full}, {"its norm", full}, {"its pyramid", pyramid}});
  }
  return largest(steps);
}

int64_t pyramid_frame_bytes(const MemoryRequest& r, const Sizes& z) {
  int64_t pixels = 0;
  for (int64_t level = 0; level < r.config.track_corr_levels; ++level)
    pixels += ((z.H / kTrackStride) >> level) * ((z.W / kTrackStride) >> level);
  return pixels * r.config.track_features * z.state;
}

TrackSizes track_sizes(const MemoryRequest& r, const Sizes& z) {
  TrackSizes sizes;
  sizes.device_bytes = r.gpu ? kTrackDeviceBytes : std::numeric_limits<int64_t>::max();
  sizes.host_frames = std::max<int64_t>(1, kTrackHostBytes / std::max<int64_t>(1, pyramid_frame_bytes(r, z)));
  sizes.correlation_elements = kCorrelationElements;
  return sizes;
}

StageMemory track_stage(const MemoryRequest& r, const Sizes& z, const MemoryPlan& plan, int64_t on_device,
                        int64_t kept_layers) {
  const int64_t Q = r.query_points, frame = pyramid_frame_bytes(r, z), hidden = r.config.track_hidden;
  const MemoryTerm maps{"feature maps on the device", on_device * frame};
  const Terms extract = joined(joined(kept_terms(z, kept_layers), {maps}),
                               dense_terms(r, z, plan.dense_frames, r.config.track_features, 0));
  const int64_t frame_volume = Q * (z.H / kTrackStride) * (z.W / kTrackStride);  // correlations of one frame
  const int64_t volume = std::min(z.S * frame_volume, std::max(kCorrelationElements, frame_volume));
  const int64_t from_host = std::min(plan.track.host_frames, z.S - on_device);
  const MemoryTerm correlation{"correlations of all frames",
                               z.S * Q * r.config.track_corr_levels * kCorrelationWindow * z.state};
  const Terms correlate = {maps,
                           {"feature maps from the host", from_host * frame},
                           correlation,
                           {"correlation volume", 2 * volume * z.state}};
  // The second product of a block's MLP: the transformer's input and its transform, x, norm1(x), the sum,
  // norm2 of that sum, the hidden layer, the output.
  constexpr int64_t kTensors = 6 + 4 + 1;  // of `hidden` numbers a token
  const int64_t tokens = (Q + kVirtualTracks) * z.S;
  const Terms update = {maps,
                        correlation,
                        {"update transformer", kTensors * tokens * hidden * z.state},
                        {"its parts", product_part_bytes(r, z.state, tokens, 4 * hidden)}};
  return {"track_head", largest({extract, correlate, update})};
}

int64_t count_weight_bytes(const MemoryRequest& r, const Sizes& z) {
  int64_t bytes = 0;
  for (const auto& [name, shape] : r.tensors) {
    const int64_t values =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
    const bool operand = name.starts_with("aggregator.") && name.ends_with(".weight") && shape.size() > 1;
    bytes += values * (operand ? z.operand : z.state);
  }
  return bytes;
}

void plan_stages(const MemoryRequest& r, const Sizes& z, MemoryPlan& plan) {
  const Heads& heads = r.heads;
  std::set<int64_t> kept;
  if (heads.depth || heads.points || heads.tracks)
    kept.insert(r.config.intermediate_layers.begin(), r.config.intermediate_layers.end());
  if (heads.camera) kept.insert(r.config.depth - 1);
  const auto layers = static_cast<int64_t>(kept.size());
  plan.stages.push_back(patch_embed_stage(r, z, plan.embed_frames));
  const Terms block = block_terms(r, z.S * z.P, z.C, z.operand, false);
  plan.stages.push_back(block_stage("frame_block", z, std::max<int64_t>(0, layers - 1), block));
  const int64_t last = kept.empty() ? 0 : *kept.rbegin();
  plan.stages.push_back(block_stage("global_block", z, layers, global_block_terms(r, z, block, last)));
  if (heads.camera) plan.stages.push_back(camera_stage(r, z, layers));
  const auto dense = [&](const char* stage, int64_t outputs) {
    plan.stages.push_back(
        {stage, joined(kept_terms(z, layers),
                       dense_terms(r, z, plan.dense_frames, r.config.dpt_features, outputs))});
  };
  if (heads.depth) dense("depth_head", 2);
  if (heads.points) dense("point_head", 4);
  if (!heads.tracks || r.query_points == 0) return;
  const int64_t frame = std::max<int64_t>(1, pyramid_frame_bytes(r, z));
  const int64_t on_device = std::min(z.S, plan.track.device_bytes / frame);
  plan.pinned_bytes = (z.S - on_device) * frame;
  plan.stages.push_back(track_stage(r, z, plan, on_device, layers));
}

}  // namespace

int64_t StageMemory::bytes() const {
  return sum(terms);
}

int64_t MemoryPlan::peak_bytes() const {
  int64_t most = 0;
  for (const StageMemory& stage : stages) most = std::max(most, stage.bytes());
  return weight_bytes + most;
}

int64_t MemoryPlan::peak_bytes(const std::string& stage) const {
  for (const StageMemory& s : stages) {
    if (s.stage == stage) return weight_bytes + s.bytes();
  }
  return 0;
}

MemoryPlan plan_memory(const MemoryRequest& request) {
  const Sizes z(request);
  const int64_t largest_map = 4 * z.H * z.W * (request.config.dpt_features / 2);  // bytes in fp32
  const int64_t embed = (request.gpu ? kEmbedTokensCuda : kEmbedTokensCpu) / z.P;
  const int64_t dense =
      (request.gpu ? kDenseBytesCuda : kDenseBytesCpu) / std::max<int64_t>(1, 4 * largest_map);
  const auto chunk = [&](int64_t by_size) {
    const int64_t frames = request.frames_per_chunk > 0 ? request.frames_per_chunk : by_size;
    return std::clamp<int64_t>(frames, 1, z.S);
  };
  MemoryPlan plan;
  plan.embed_frames = chunk(embed);
  plan.dense_frames = chunk(dense);
  plan.track = track_sizes(request, z);
  plan.weight_bytes = count_weight_bytes(request, z);
  plan_stages(request, z, plan);
  return plan;
}

}  // namespace vggt
