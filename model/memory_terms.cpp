#include "model/memory_terms.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>

#include "model/heads/head_constants.h"
#include "model/layers/rope_params.h"
#include "model/layers/work_sizes.h"
#include "model/ranks/shares.h"

namespace vggt {
namespace {

using Terms = std::vector<MemoryTerm>;

int64_t operand_bytes(Precision precision) {
  return precision == Precision::fp64                                   ? 8
         : precision == Precision::bf16 || precision == Precision::fp16 ? 2
                                                                        : 4;
}
int64_t state_bytes(Precision precision) {
  return precision == Precision::fp64 ? 8 : 4;
}

}  // namespace

Sizes::Sizes(const MemoryRequest& r)
    : S(Shares{r.frames, r.ranks}.most()),
      H(r.height),
      W(r.width),
      C(r.config.embed_dim),
      all(r.frames),
      head(C / r.config.num_heads),
      own(Shares{r.config.num_heads, r.ranks}.most() * head),
      rows(r.height / r.config.patch_size),
      columns(r.width / r.config.patch_size),
      P(r.config.special_tokens() + rows * columns),
      operand(operand_bytes(r.precision)),
      state(state_bytes(r.precision)),
      dense(r.heads_in_bf16 ? 2 : state) {}

namespace {

/// Whether it enters a dense head's products or convolutions; the last one stays in fp32.
bool is_dense_weight(std::string_view name) {
  const bool of_head = name.starts_with("depth_head.") || name.starts_with("point_head.") ||
                       name.starts_with("track_head.feature_extractor.");
  return of_head && !name.ends_with("output_conv2.2.weight");
}

}  // namespace

int64_t part_bytes(const MemoryRequest& r, const Sizes& z, std::string_view prefix) {
  int64_t bytes = 0;
  for (const auto& [name, shape] : r.tensors) {
    if (!name.starts_with(prefix)) continue;
    const int64_t values =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
    const bool matrix = name.ends_with(".weight") && shape.size() > 1;
    bytes += values * (matrix && name.starts_with("aggregator.") ? z.operand
                       : matrix && is_dense_weight(name)         ? z.dense
                                                                 : z.state);
  }
  return bytes;
}

int64_t merged_rows(const MemoryRequest& r, const Sizes& z) {
  if (!r.merge || r.merge->start >= r.config.depth) return 0;
  const MergeCounts counts = merge_counts(z.all, z.rows, z.columns, r.config.special_tokens(), *r.merge);
  return counts.most_merged > 0 ? counts.most_rows() : 0;
}

int64_t dense_heads(const MemoryRequest& r) {
  return int64_t{r.heads.depth} + int64_t{r.heads.points} + int64_t{r.runs_tracker()};
}

int64_t map_bytes(const MemoryRequest& r, const Sizes& z, int64_t layer) {
  int64_t channels = 0;
  for (size_t level = 0; level < 4; ++level) {
    if (r.config.intermediate_layers[level] < layer) channels += r.config.dpt_out_channels[level];
  }
  return dense_heads(r) * z.S * z.rows * z.columns * channels * z.dense;
}

int64_t pyramid_frame_bytes(const MemoryRequest& r, const Sizes& z) {
  int64_t pixels = 0;
  for (int64_t level = 0; level < r.config.track_corr_levels; ++level)
    pixels += ((z.H / kTrackStride) >> level) * ((z.W / kTrackStride) >> level);
  return pixels * r.config.track_features * z.state;
}
namespace {

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

/// Bytes of the parts that attention makes of one element each of q, k and v. operand: bytes of an element.
int64_t attention_part_bytes(const MemoryRequest& r, int64_t operand) {
  if (!r.gpu) {
    const bool widens = operand == 2 && !(r.precision == Precision::bf16 && r.bf16_attention);
    return widens ? 4 * 4 : 0;  // q, k, v and the output in fp32
  }
  if (operand != 4) return 0;
  const bool automatic = r.attention == AttentionVariant::automatic && r.gpu->mma;
  const bool tf32 = r.precision == Precision::tf32;
  if (r.attention == AttentionVariant::split || (automatic && !tf32)) return 3 * 4;
  if (r.attention == AttentionVariant::turbo || (automatic && tf32)) return 3 * 2;
  return 0;
}

/// Sequences of equal length whose tokens have `dim` channels, those of all heads together.
struct Sequences {
  int64_t count, length, dim, heads;
  int64_t tokens() const { return count * length; }
};

/// What attention makes of q, k and v of some sequences: parts, and where a GPU's kernels have no heads of
/// that width, wider q, k, v and output.
MemoryTerm attention_parts(const MemoryRequest& r, const Sequences& x, int64_t operand) {
  const int64_t dim = x.dim / x.heads, wide = r.gpu && dim > 0 && dim <= 128 ? kernel_dim(dim) : dim;
  const int64_t head_bytes = x.length * wide * attention_part_bytes(r, operand);
  const PartGroup group = r.gpu ? part_group(x.count, x.heads, head_bytes) : PartGroup{x.count, x.heads};
  const bool pads = wide > dim && r.attention != AttentionVariant::sdpa;
  const int64_t padded = pads ? x.tokens() * x.heads * 4 * wide * operand : 0;
  return {"parts of q, k, v", group.sequences * group.heads * head_bytes + padded};
}

/// Bytes of the parts of rows [rows,in] that enter a product of fp32 split into fp16. operand: bytes of an
/// element; the heads' are fp32 beside an aggregator in bf16 or fp16 too.
int64_t product_part_bytes(const MemoryRequest& r, int64_t operand, int64_t rows, int64_t in) {
  if (!r.gpu || !r.gpu->wgmma || operand != 4 || r.precision == Precision::tf32) return 0;
  return std::min(rows * in * 4, kSplitPieceBytes);
}

/// Rows that a block of this width takes at once.
int64_t most_rows(const MemoryRequest& r, int64_t dim) {
  return block_rows(dim, r.gpu.has_value());
}

/// What a piece of rows holds on its way through a block's MLP, beside the residual and attention's output.
Terms mlp_terms(const MemoryRequest& r, int64_t tokens, int64_t dim, int64_t operand, bool few_rows) {
  const int64_t rows = std::min(tokens, most_rows(r, dim));
  return {{"norm of a piece of rows", rows * dim * operand},  // and the projection before, the output after
          {"sum of a piece of rows", rows * dim * state_bytes(r.precision)},
          {"hidden layer of a piece of rows", rows * 4 * dim * operand},
          {"its parts", few_rows ? 0 : product_part_bytes(r, operand, rows, 4 * dim)}};
}

/// A block's own tensors beside its residual.
Terms block_terms(const MemoryRequest& r, const Sequences& x, int64_t operand, bool few_rows) {
  const int64_t tokens = x.tokens(), dim = x.dim;
  const int64_t rows = std::min(tokens, most_rows(r, dim));
  const MemoryTerm qkv{"q, k, v", tokens * 3 * dim * operand},
      mixed{"attention's output", tokens * dim * operand};
  return largest({{qkv, {"norm of a piece of rows", rows * dim * operand}},
                  {qkv, mixed, attention_parts(r, x, operand)},
                  joined({mixed}, mlp_terms(r, tokens, dim, operand, few_rows))});
}

/// What best_destinations() holds for `sources` sources of a piece.
int64_t match_bytes(const MemoryRequest& r, const Sizes& z, int64_t sources, int64_t destinations,
                    int64_t width) {
  if (r.gpu && r.gpu->wgmma && z.operand == 2) return 0;
  if (r.gpu && r.gpu->wgmma && z.operand == 4) return kSplitPieceBytes;
  if (!r.gpu && r.screened_matches && z.state == 4) {
    // The destinations in 8 bits, with four numbers each; then the scores of sources that are left.
    return destinations * std::max<int64_t>(width + 4 * 4, 4 * kLeftSources);
  }
  return std::min(std::min(sources, std::max<int64_t>(1, kMatchScores / destinations)) * destinations,
                  kMatchScores) *
         z.state;
}

/// What the trunk's stages hold throughout: the residual, its copy in a layer that is kept, the heads' maps.
/// On the device, or the buffers of pieces that pass through it.
Terms held_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s, int64_t maps_below, bool keeps) {
  constexpr int64_t kBuffers = 3;
  const int64_t frame = z.P * z.C * z.state, piece = std::max(s.embed_frames, s.pass_frames);
  const bool resident = s.residual == Place::device;
  Terms terms = {
      {resident ? "residual" : "pieces of the residual", resident ? z.S * frame : kBuffers * piece * frame}};
  if (keeps)
    terms.push_back({resident ? "first half of a layer" : "pieces of a layer's first half",
                     resident ? z.S * frame : (kBuffers + 1) * s.pass_frames * frame});
  if (r.heads.camera) terms.push_back({"camera tokens", z.S * 2 * z.C * z.state});
  if (dense_heads(r) > 0 && maps_below > 0 && s.maps == Place::device)
    terms.push_back({"heads' maps", map_bytes(r, z, maps_below)});
  return terms;
}

/// Frames that a pass which changes the residual takes at once.
int64_t stored_frames(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  return s.residual == Place::device ? std::min(s.pass_frames, block_frames(z.C, z.P, r.gpu.has_value()))
                                     : s.pass_frames;
}

/// Of a resident residual's piece there is a copy where its work can be undone by no other means.
Terms piece_copy(const MemoryRequest& r, const Sizes& z, const Schedule& s, bool keeps) {
  if (s.residual != Place::device || !(keeps || z.P > most_rows(r, z.C))) return {};
  return {{"copy of a piece", stored_frames(r, z, s) * z.P * z.C * z.state}};
}

/// One piece of a kept layer on its way to the heads.
Terms keep_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t tokens = std::min({s.keep_frames, stored_frames(r, z, s), z.S}) * z.P;
  if (dense_heads(r) == 0) return {{"both halves of a piece", 2 * tokens * z.C * z.state}};
  const int64_t widest =
      *std::max_element(r.config.dpt_out_channels.begin(), r.config.dpt_out_channels.end());
  const int64_t norm = z.dense + (r.gpu ? 0 : z.state);  // LibTorch's on a CPU is copied
  return {{"both halves of a piece", 2 * tokens * z.C * z.state},
          {"their norm", 2 * tokens * z.C * norm},
          {"their projection", (s.maps == Place::device ? 1 : 3) * tokens * widest * z.dense},
          {"its parts", product_part_bytes(r, z.dense, tokens, 2 * z.C)}};
}

/// What a rank sends, of `parts` of q, k and v and two pieces of frames, while it projects the second one.
MemoryTerm sent_terms(const Sizes& z, const Schedule& s, int64_t parts) {
  const int64_t piece = std::min(z.S, s.pass_frames) * z.P;
  return {"pieces for other ranks", 2 * piece * parts * (z.C - z.own) * z.operand};
}

/// Whether several ranks get each other's tokens of their heads in exact attention, and hold them on the
/// device; else keys and values go round, or all lies elsewhere.
bool shares_heads_on_device(const MemoryRequest& r, const Schedule& s) {
  return r.ranks > 1 && s.qkv == Place::device && r.config.num_heads % r.ranks == 0;
}

/// exact_terms() of one of several ranks.
Terms ranked_exact_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t n = z.S * z.P, N = z.all * z.P, piece = std::min(z.S, s.pass_frames) * z.P;
  const MemoryTerm norm{"norm of a piece of rows", std::min(piece, most_rows(r, z.C)) * z.C * z.operand},
      sent = sent_terms(z, s, 3);
  if (s.qkv != Place::device) {
    const MemoryTerm pieces{"pieces of q, k, v of own heads", 3 * r.ranks * piece * 3 * z.own * z.operand};
    return largest({{pieces, sent, norm},
                    {{"streamed attention", s.attention_bytes}},
                    {{"pieces of the output", 4 * r.ranks * piece * z.own * z.operand},
                     {"outputs of other heads", 2 * piece * z.C * z.operand}}});
  }
  if (shares_heads_on_device(r, s)) {
    const MemoryTerm qkv{"q, k, v of own heads", N * 3 * z.own * z.operand},
        mixed{"attention's output", N * z.own * z.operand};
    return largest(
        {{qkv, sent, norm}, {qkv, mixed, attention_parts(r, {1, N, z.own, z.own / z.head}, z.operand)}});
  }
  return {{"queries", n * z.C * z.operand},
          {"keys and values", 4 * n * z.C * z.operand},
          {"states", 2 * n * (z.C + 2 * r.config.num_heads) * z.state},
          attention_parts(r, {1, n, z.C, r.config.num_heads}, z.operand)};
}

/// Attention's steps of a global block over `rows` rows: q, k, v and what comes out.
Terms exact_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  if (r.ranks > 1) return ranked_exact_terms(r, z, s);
  const int64_t N = z.S * z.P, piece = s.pass_frames * z.P;
  const Terms project = block_terms(r, {s.pass_frames, z.P, z.C, r.config.num_heads}, z.operand, false);
  if (s.qkv != Place::device) {
    return largest({joined({{"pieces of q, k, v", 2 * piece * 3 * z.C * z.operand}}, project),
                    {{"streamed attention", s.attention_bytes}}});
  }
  const MemoryTerm qkv{"q, k, v", N * 3 * z.C * z.operand};
  return largest({{qkv, {"norm of a piece of rows", std::min(piece, most_rows(r, z.C)) * z.C * z.operand}},
                  {qkv,
                   {"attention's output", N * z.C * z.operand},
                   attention_parts(r, {1, N, z.C, r.config.num_heads}, z.operand)}});
}

/// The same of a global block that merges tokens.
Terms merged_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s, const MergeCounts& counts) {
  const int64_t N = counts.tokens, M = counts.most_rows(), d = counts.destinations;
  const bool streams = s.qkv != Place::device;
  const bool in_place = r.gpu && !streams && z.operand != 8 && norm_rope_mean_takes(z.head);
  const int64_t piece = std::min(N, s.pass_frames * z.P), rows = std::min(piece, most_rows(r, z.C));
  const int64_t score_operand = r.gpu ? z.operand : z.state;
  const MemoryTerm plan{"merge plan", 8 * (2 * N + counts.protected_tokens + M)},  // of int64
      values{"q, k or v", N * z.own * z.operand},
      merged{"merged q, k, v", streams ? 0 : M * 3 * z.own * z.operand},
      norm{"norm of a piece of rows", rows * z.C * z.operand},
      mixed{"attention's output", M * z.own * z.operand},
      sent = sent_terms(z, s, 1),  // 0 bytes of a single rank
      projection{"its projection", r.ranks > 1 ? (M + 3 * M / r.ranks) * z.C * z.operand : mixed.bytes};
  const int64_t width = metric_width(*r.merge, z.C);
  const MemoryTerm narrow{"a narrower metric", width < z.C ? piece * width * 2 * score_operand : 0};
  return largest({{{"destinations' metric", d * width * score_operand},
                   {"sources of a piece", piece * z.C * (2 * z.state + score_operand)},
                   narrow,
                   {"scores", match_bytes(r, z, std::min(piece, N - d), d, width)}},
                  {plan, values, merged, norm, sent},
                  {plan,
                   values,
                   {"merged tokens and v of them", 2 * M * z.own * z.operand},
                   {"their parts", product_part_bytes(r, z.operand, std::min(M, most_rows(r, z.C)), z.C)}},
                  {plan, values, merged, {"their means", in_place ? 0 : M * z.own * z.operand + 8 * (N + M)}},
                  {plan, merged, mixed,
                   streams ? MemoryTerm{"streamed attention", s.attention_bytes}
                           : attention_parts(r, {1, M, z.own, z.own / z.head}, z.operand)},
                  {plan, mixed, projection}});
}

/// The finishing half of a block on one piece of frames.
Terms finish_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s, bool keeps) {
  const Terms mlp = mlp_terms(r, stored_frames(r, z, s) * z.P, z.C, z.operand, false);
  return joined(piece_copy(r, z, s, keeps), keeps ? largest({mlp, keep_terms(r, z, s)}) : mlp);
}

/// Buffers of maps that come back from elsewhere to a dense head.
Terms pieces_of_maps(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  constexpr int64_t kBuffers = 3;
  if (s.maps == Place::device) return {};
  const int64_t channels =
      std::accumulate(r.config.dpt_out_channels.begin(), r.config.dpt_out_channels.end(), int64_t{0});
  return {{"pieces of its maps",
           kBuffers * std::max(s.keep_frames, s.dense_frames) * z.rows * z.columns * channels * z.dense}};
}

/// Weights that come from the host when a stage begins and stay until it ends; streamed blocks are counted
/// elsewhere.
Terms stage_weights(const MemoryRequest& r, const Sizes& z, const Schedule& s,
                    std::initializer_list<const char*> parts) {
  if (!r.weights_on_host || s.stream_weights) return {};
  int64_t bytes = 0;
  for (const char* part : parts) bytes += part_bytes(r, z, part);
  return {{"the stage's weights", bytes}};
}

StageMemory patch_embed_stage(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t frames = s.embed_frames, tokens = frames * z.P, pixels = frames * 3 * z.H * z.W;
  Terms terms =
      joined(held_terms(r, z, s, 0, false), stage_weights(r, z, s, {"aggregator.patch_embed.blocks."}));
  terms = joined(terms, {{"frames of a chunk", 2 * pixels * z.state},
                         {"chunks of other ranks", (r.ranks - 1) * pixels * z.state},
                         {"patches of a chunk", frames * z.rows * z.columns * z.C * (z.operand + z.state)},
                         {"tokens of a chunk", tokens * z.C * z.state}});
  return {"patch_embed",
          joined(terms, block_terms(r, {frames, z.P, z.C, r.config.vit_num_heads}, z.operand, false)),
          {}};
}

/// Stages "frame_block" and "global_block", each at its worst layer.
void trunk_stages(const MemoryRequest& r, const Sizes& z, const Schedule& s,
                  std::vector<StageMemory>& stages) {
  const std::set<int64_t> kept = kept_layers(r.config, r.heads);
  const int64_t last = kept.empty() ? 0 : *kept.rbegin();
  std::optional<MergeCounts> counts;
  if (r.merge) counts = merge_counts(z.all, z.rows, z.columns, r.config.special_tokens(), *r.merge);
  Terms frame, global;
  for (int64_t layer = 0; layer <= last; ++layer) {
    const bool keeps = kept.contains(layer),
               merges = counts && counts->most_merged > 0 && layer >= r.merge->start;
    const Terms weights = stage_weights(r, z, s, {"aggregator.frame_blocks.", "aggregator.global_blocks."});
    const Terms held = joined(held_terms(r, z, s, layer, keeps), weights),
                after = joined(held_terms(r, z, s, layer + 1, keeps), weights);
    frame = largest({frame, joined(joined(held, piece_copy(r, z, s, keeps)),
                                   block_terms(r, {stored_frames(r, z, s), z.P, z.C, r.config.num_heads},
                                               z.operand, false))});
    global = largest({global, joined(held, merges ? merged_terms(r, z, s, *counts) : exact_terms(r, z, s))});
    const int64_t mixed = merges                   ? counts->most_rows()
                          : s.qkv == Place::device ? z.S * z.P
                                                   : 3 * s.pass_frames * z.P;
    Terms finish = joined(after, {{"attention's output", mixed * z.C * z.operand}});
    if (!merges && shares_heads_on_device(r, s))
      finish.push_back(
          {"outputs of other heads",
           (z.S * (z.C - z.own) + std::min(z.S, stored_frames(r, z, s)) * z.C) * z.P * z.operand});
    global = largest({global, joined(finish, finish_terms(r, z, s, keeps))});
  }
  stages.push_back({"frame_block", frame, {}});
  stages.push_back({"global_block", global, {}});
}

/// What the heads that come later keep while a head runs.
Terms waiting_terms(const MemoryRequest& r, const Sizes& z, const Schedule& s, int64_t heads_done) {
  if (s.maps != Place::device || dense_heads(r) == 0) return {};
  return {{"heads' maps", map_bytes(r, z, r.config.depth) / dense_heads(r) * (dense_heads(r) - heads_done)}};
}

StageMemory camera_stage(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  // Of 2C numbers a frame: the token, its norm, the modulation, sums of them.
  constexpr int64_t kVectors = 11;
  Terms head = {{"vectors of all frames", kVectors * z.all * 2 * z.C * z.state}};
  if (r.weights_on_host) head.push_back({"the head's weights", part_bytes(r, z, "camera_head.")});
  head = joined(head, block_terms(r, {1, z.all, 2 * z.C, r.config.camera_num_heads}, z.state, true));
  return {"camera_head", joined(waiting_terms(r, z, s, 0), head), {}};
}

/// What a dense head holds for a chunk of frames. outputs: its channels; 0 for the tracker's feature
/// extractor, whose maps are smaller than the frames.
Terms dense_terms(const MemoryRequest& r, const Sizes& z, int64_t frames, int64_t features, int64_t outputs) {
  const int64_t patches = z.rows * z.columns, a = frames * z.dense;
  const int64_t ratio = outputs > 0 ? 1 : kTrackStride, narrow = outputs > 0 ? features / 2 : features;
  const int64_t wide = a * 64 * patches * features;  // the fused map, eight a patch's side
  const int64_t fused = a * 64 * patches * narrow;   // after output_conv1
  const int64_t pixels = frames * (z.H / ratio) * (z.W / ratio), full = pixels * narrow;  // resized, numbers
  const bool exact = r.gpu && r.precision == Precision::fp32 && !r.heads_in_bf16;
  const auto exact_bytes = [&](int64_t in, int64_t out, int64_t map_bytes) {
    if (!exact) return int64_t{0};
    const bool split = split_conv_pays({in, out, 3, 1, true, false, r.gpu->wgmma});
    return split ? kConvPieceBytes : map_bytes + kConvPieceBytes;  // products of the padded map, in pieces
  };
  std::vector<Terms> steps = {
      {{"fused map", wide}, {"its output", fused}, {"convolution", exact_bytes(features, narrow, wide)}},
      {{"fused map", fused}, {"resized map", full * z.dense}}};
  if (outputs > 0) {
    steps.push_back({{"resized map", full * z.dense},
                     {"its output", pixels * kDptLastChannels * z.dense},
                     {"convolution", exact_bytes(narrow, kDptLastChannels, full * z.dense)}});
  } else {
    steps.push_back({{"resized map", full * z.dense},
                     {"its norm", full * z.state},
                     {"its pyramid", (full + full / 3) * z.state}});
  }
  return largest(steps);
}

StageMemory track_stage(const MemoryRequest& r, const Sizes& z, const MemoryPlan& plan, int64_t on_device) {
  const int64_t Q = r.query_points, frame = pyramid_frame_bytes(r, z), hidden = r.config.track_hidden;
  const MemoryTerm maps{"feature maps on the device", on_device * frame};
  const Schedule& s = plan.schedule;
  const Terms held = joined(waiting_terms(r, z, s, dense_heads(r) - 1), pieces_of_maps(r, z, s));
  const int64_t features = (z.H / kTrackStride) * (z.W / kTrackStride) * r.config.track_features * z.dense;
  const MemoryTerm others{"feature maps of other ranks", (r.ranks - 1) * s.dense_frames * features};
  const Terms extract =
      joined(joined(held, {maps, others}), dense_terms(r, z, s.dense_frames, r.config.track_features, 0));
  const int64_t frame_volume = Q * (z.H / kTrackStride) * (z.W / kTrackStride);  // correlations of one frame
  const int64_t volume =
      std::min(z.all * frame_volume, std::max(plan.track.correlation_elements, frame_volume));
  const int64_t from_host = std::min(plan.track.host_frames, z.all - on_device);
  const MemoryTerm correlation{"correlations of all frames",
                               z.all * Q * r.config.track_corr_levels * kCorrelationWindow * z.state};
  const Terms correlate = {maps,
                           {"feature maps from the host", from_host * frame},
                           correlation,
                           {"correlation volume", 2 * volume * z.state}};
  // The second product of a block's MLP: the transformer's input and its transform, x, norm1(x), the sum,
  // norm2 of that sum, the hidden layer, the output.
  constexpr int64_t kTensors = 6 + 4 + 1;  // of `hidden` numbers a token
  const int64_t tokens = (Q + kVirtualTracks) * z.all;
  const Terms update = {maps,
                        correlation,
                        {"update transformer", kTensors * tokens * hidden * z.state},
                        {"its parts", product_part_bytes(r, z.state, tokens, 4 * hidden)}};
  return {"track_head", largest({extract, correlate, update}), {}};
}

}  // namespace

int64_t held_bytes(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  return sum(held_terms(r, z, s, r.config.depth, true));
}

std::vector<StageMemory> stage_memory(const MemoryRequest& r, const Sizes& z, const MemoryPlan& plan) {
  const Schedule& s = plan.schedule;
  const Heads& heads = r.heads;
  std::vector<StageMemory> stages = {patch_embed_stage(r, z, s)};
  trunk_stages(r, z, s, stages);
  if (heads.camera) stages.push_back(camera_stage(r, z, s));
  int64_t done = 0;
  const auto dense = [&](const char* stage, int64_t outputs) {
    Terms waiting = joined(waiting_terms(r, z, s, done++), pieces_of_maps(r, z, s));
    if (r.ranks > 1)
      waiting.push_back(
          {"chunks of other ranks", 2 * r.ranks * s.dense_frames * z.H * z.W * outputs * z.state});
    stages.push_back(
        {stage, joined(waiting, dense_terms(r, z, s.dense_frames, r.config.dpt_features, outputs)), {}});
  };
  if (heads.depth) dense("depth_head", 2);
  if (heads.points) dense("point_head", 4);
  if (r.runs_tracker()) {
    const int64_t frame = std::max<int64_t>(1, pyramid_frame_bytes(r, z));
    stages.push_back(track_stage(r, z, plan, std::min(z.all, plan.track.device_bytes / frame)));
  }
  return stages;
}

int64_t StageMemory::bytes() const {
  return sum(terms);
}

}  // namespace vggt
