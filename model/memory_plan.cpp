#include "model/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>

#include "model/layers/work_sizes.h"
#include "model/memory_terms.h"

namespace vggt {
namespace {

// Tokens that the patch embedder, and bytes that four of a dense head's largest maps on a GPU, may take at
// once. More frames at a time make neither faster; on the CPU fewer stay closer to the caches.
constexpr int64_t kEmbedTokensCuda = 2 * kBlockRows, kEmbedTokensCpu = 4096;
constexpr int64_t kDenseBytesCuda = int64_t{3} << 30;
// The tracker's feature maps: how many stay on a GPU, and how many come from host memory at once.
constexpr int64_t kTrackDeviceBytes = int64_t{6} << 30, kTrackHostBytes = int64_t{512} << 20;
constexpr int64_t kCorrelationElements = int64_t{1} << 26;
constexpr int64_t kFewDenseFrames = 5;
// Tokens that pass through the row-wise halves of blocks at once: enough for the frames' attention and for
// matching.
constexpr int64_t kPassRows = 2 * kBlockRows;
// What LibTorch gives cuBLAS to work in, on each thread that needs it, and the maps of heads that begin.
constexpr int64_t kHopperWorkspace = int64_t{32} << 20, kWorkspace = int64_t{8} << 20,
                  kBegunMaps = int64_t{4} << 20;
// Tokens of a kept layer that are projected for the dense heads at once.
constexpr int64_t kKeepRows = 42 * 128;

std::string gigabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

TrackSizes track_sizes(const MemoryRequest& r, const Sizes& z, int64_t scale) {
  TrackSizes sizes;
  sizes.device_bytes = r.gpu ? kTrackDeviceBytes / scale : std::numeric_limits<int64_t>::max();
  sizes.host_frames =
      std::max<int64_t>(1, kTrackHostBytes / scale / std::max<int64_t>(1, pyramid_frame_bytes(r, z)));
  sizes.correlation_elements = kCorrelationElements / scale;
  return sizes;
}

/// What a plan is made from: smaller steps take less memory and more time.
struct Choice {
  Place residual, maps, qkv;
  bool stream_weights;
  int64_t scale;  // by which pieces are smaller than they like to be
};

/// Whether any global block attends to all tokens.
bool is_exact_somewhere(const MemoryRequest& r, const Sizes& z) {
  return merged_rows(r, z) == 0 || r.merge->start > 0;
}

/// The most tokens, or merged rows, of a global block's attention.
int64_t attended_rows(const MemoryRequest& r, const Sizes& z) {
  return is_exact_somewhere(r, z) ? z.all * z.P : merged_rows(r, z);
}

StreamShape stream_shape(const MemoryRequest& r, const Sizes& z) {
  const int64_t D = z.C / r.config.num_heads;
  return {attended_rows(r, z), z.own / D, D, z.operand, false, !r.gpu && z.operand < 8};
}

Schedule schedule_of(const MemoryRequest& r, const Sizes& z, const Choice& choice) {
  const int64_t number = r.heads_in_bf16 ? 2 : 4;  // bytes of it in a dense head, in fp64 too
  const int64_t largest_map = number * z.H * z.W * (r.config.dpt_features / 2);
  const int64_t embed = (r.gpu ? kEmbedTokensCuda : kEmbedTokensCpu) / choice.scale / z.P;
  // On a CPU each frame alone: LibTorch's sums over small maps depend on how many there are.
  const int64_t dense = r.gpu ? kDenseBytesCuda / choice.scale / std::max<int64_t>(1, 4 * largest_map) : 1;
  const auto chunk = [&](int64_t by_size, int64_t asked) {
    return std::clamp<int64_t>(asked > 0 ? asked : by_size, 1, z.S);
  };
  Schedule s;
  s.embed_frames = chunk(embed, r.frames_per_chunk);
  s.dense_frames = chunk(dense, r.frames_per_chunk);
  s.pass_frames = chunk(kPassRows / choice.scale / z.P, 0);
  s.keep_frames = chunk(kKeepRows / choice.scale / z.P, 0);
  s.residual = choice.residual;
  s.maps = choice.maps;
  s.qkv = choice.qkv;
  s.stream_weights = choice.stream_weights;
  if (r.budget.scratch) s.scratch = *r.budget.scratch;
  return s;
}

int64_t work_bytes(const MemoryRequest& r) {
  if (!r.gpu) return 0;
  const int64_t workspace = r.gpu->wgmma ? kHopperWorkspace : kWorkspace;
  return workspace + (r.begin_heads ? workspace + kBegunMaps : 0);
}

/// Bytes of weights that stay on the device for the whole run, and of what libraries work in.
int64_t resident_weights(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t workspace = work_bytes(r);
  const int64_t camera = part_bytes(r, z, "camera_head.");
  if (!r.weights_on_host) return workspace + part_bytes(r, z, "");
  // The dense heads and what is neither block nor head; of a stack that is streamed two blocks, one on its
  // way.
  const int64_t vit = part_bytes(r, z, "aggregator.patch_embed.blocks."),
                frame = part_bytes(r, z, "aggregator.frame_blocks."),
                global = part_bytes(r, z, "aggregator.global_blocks.");
  const int64_t slots = std::max(2 * vit / std::max<int64_t>(1, r.config.vit_depth),
                                 2 * (frame + global) / std::max<int64_t>(1, r.config.depth));
  return workspace + (s.stream_weights ? slots : 0) + part_bytes(r, z, "") - vit - frame - global - camera;
}

/// What rank 0 holds of the others in page-locked memory: two pieces of frames of 8 bits, and one of results.
int64_t other_ranks_bytes(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t results = r.heads.points ? 4 : r.heads.depth ? 2 : 0;  // numbers of a pixel
  return (r.ranks - 1) * z.H * z.W * (2 * 3 * s.embed_frames + results * z.state * s.dense_frames);
}

/// Of exact attention, where it is outside the device: q, k, v and the output of the own heads, and of
/// several ranks the output of the own frames, which comes after it.
int64_t attention_bytes(const MemoryRequest& r, const Sizes& z) {
  return (z.all * 4 * z.own + (r.ranks > 1 ? z.S * z.C : 0)) * z.P * z.operand;
}

/// Page-locked pieces through which files reach a GPU, of each tensor three that are read and one that is
/// written: what is more than a process has of such memory anyway.
int64_t staging_bytes(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  constexpr int64_t kPieces = 4, kAnyway = 64 << 20;
  if (!r.gpu) return 0;
  const int64_t tokens = std::max(s.embed_frames, s.pass_frames) * z.P;
  int64_t bytes = 0;
  if (s.residual == Place::file) bytes += 2 * tokens * z.C * z.state;  // a layer's first half is another
  if (s.qkv == Place::file) bytes += 4 * tokens * z.own * z.operand;
  if (s.maps == Place::file)
    bytes +=
        std::max(s.keep_frames, s.dense_frames) * map_bytes(r, z, r.config.depth) / std::max<int64_t>(1, z.S);
  return std::max<int64_t>(0, kPieces * bytes - kAnyway);
}

/// Of weights that lie on the host during the whole run.
int64_t bytes_of_waiting_weights(const MemoryRequest& r, const Sizes& z) {
  return r.weights_on_host ? part_bytes(r, z, "") : 0;
}

/// Bytes in one of the places outside the device.
int64_t bytes_in(Place place, const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  int64_t bytes = 0;
  if (s.residual == place) bytes += 2 * z.S * z.P * z.C * z.state;
  if (s.maps == place) bytes += map_bytes(r, z, r.config.depth);
  int64_t attention = s.qkv == place && is_exact_somewhere(r, z) ? attention_bytes(r, z) : 0;
  // Merged q, k and v wait on the host, wherever those of an exact block lie.
  if (s.qkv != Place::device && place == Place::host)
    attention = std::max(attention, merged_rows(r, z) * 3 * z.own * z.operand);
  bytes += attention;
  if (place == Place::host) bytes += bytes_of_waiting_weights(r, z);
  if (place == Place::host) bytes += other_ranks_bytes(r, z, s) + staging_bytes(r, z, s);
  return bytes;
}

/// What the budget leaves of the host while the trunk runs.
int64_t host_in_trunk(const MemoryRequest& r) {
  return r.budget.host + r.budget.more_in_trunk;
}

/// Bytes of a checkpoint after the trunk: the heads' maps.
int64_t kept_bytes(const MemoryRequest& r, const Sizes& z) {
  return r.checkpoints ? map_bytes(r, z, r.config.depth) : 0;
}

/// Bytes of files at most: in the last layer's attention, beside the maps of earlier layers; when a state of
/// the trunk is written, as q, k and v are gone; or when all maps are kept.
int64_t scratch_bytes(const MemoryRequest& r, const Sizes& z, const Schedule& s) {
  const int64_t maps = map_bytes(r, z, r.config.depth), state = z.S * z.P * z.C * z.state,
                states = r.checkpoints ? r.trunk_states : 0, maps_kept = states > 0 ? maps : 0,
                last_maps = s.maps == Place::file ? maps - map_bytes(r, z, r.config.depth - 1) : 0;
  Schedule without_qkv = s;
  without_qkv.qkv = Place::device;
  const bool writes_attended = s.qkv == Place::file && is_exact_somewhere(r, z);
  const int64_t attended = writes_attended ? z.S * z.P * z.C * z.operand : 0,
                after_attention = bytes_in(Place::file, r, z, without_qkv) + attended;
  const int64_t in_attention = bytes_in(Place::file, r, z, s) - last_maps +
                               std::min<int64_t>(1, states) * state + maps_kept,
                while_written = after_attention - last_maps + states * state + maps_kept,
                at_the_end = after_attention + kept_bytes(r, z);
  return std::max({in_attention, while_written, at_the_end});
}

/// Whether the stage is one of the heads that run after the trunk and the cameras.
bool is_after_trunk(const StageMemory& stage) {
  return stage.stage.ends_with("_head") && stage.stage != "camera_head";
}

/// Whether a dense head takes more than the trunk.
bool dense_decides(const MemoryPlan& plan) {
  const int64_t trunk = std::max(plan.peak_bytes("frame_block"), plan.peak_bytes("global_block"));
  return std::max(plan.peak_bytes("depth_head"), plan.peak_bytes("point_head")) > trunk;
}

/// Large chunks are a little faster, but must not alone decide how much memory a run takes: takes the most
/// frames with which they do not, or few.
void shrink_dense_chunks(const MemoryRequest& r, const Sizes& z, MemoryPlan& plan) {
  int64_t& frames = plan.schedule.dense_frames;
  if (!dense_decides(plan)) return;
  int64_t fine = std::min(frames, kFewDenseFrames), above = frames;
  while (fine + 1 < above) {
    frames = fine + (above - fine) / 2;
    plan.stages = stage_memory(r, z, plan);
    (dense_decides(plan) ? above : fine) = frames;
  }
  frames = fine;
  plan.stages = stage_memory(r, z, plan);
}

void plan_traffic(const MemoryRequest& r, const Sizes& z, MemoryPlan& plan);

MemoryPlan plan_with(const MemoryRequest& r, const Sizes& z, const Choice& choice) {
  MemoryPlan plan;
  plan.schedule = schedule_of(r, z, choice);
  Schedule& s = plan.schedule;
  plan.track = track_sizes(r, z, choice.scale);
  plan.weight_bytes = resident_weights(r, z, s);
  if (s.qkv != Place::device) {
    // Attention takes what the others leave it, within what serves it.
    const int64_t held = plan.weight_bytes + held_bytes(r, z, s);
    const int64_t most = z.all * z.P * 5 * z.own * z.operand;
    s.attention_bytes = std::clamp<int64_t>((r.gpu ? r.budget.device : host_in_trunk(r)) - held, 0, most);
    try {
      s.attention_bytes = plan_blocked(stream_shape(r, z), s.attention_bytes).device_bytes;
    } catch (const std::invalid_argument&) {
      s.attention_bytes = MemoryBudget::kUnlimited / 4;  // so that the plan does not fit
    }
  }
  if (r.runs_tracker()) {
    const int64_t frame = std::max<int64_t>(1, pyramid_frame_bytes(r, z));
    plan.pinned_bytes = (z.all - std::min(z.all, plan.track.device_bytes / frame)) * frame;
  }
  plan.stages = stage_memory(r, z, plan);
  if (r.gpu && r.frames_per_chunk == 0) shrink_dense_chunks(r, z, plan);
  plan.host_bytes = bytes_in(Place::host, r, z, s) + plan.pinned_bytes;
  plan.scratch_bytes = scratch_bytes(r, z, s);
  plan.kept_bytes = kept_bytes(r, z);
  plan.map_file_bytes = s.maps == Place::file ? map_bytes(r, z, r.config.depth) : 0;
  plan_traffic(r, z, plan);
  return plan;
}

/// Plans from the fastest to the smallest.
std::vector<Choice> choices(const MemoryRequest& r) {
  constexpr Place device = Place::device, host = Place::host;
  std::vector<Choice> all;
  const auto with_weights = [&](bool streamed) {
    for (const int64_t scale : {1, 4}) {
      all.push_back({device, device, device, streamed, scale});
      all.push_back({device, host, device, streamed, scale});
      all.push_back({host, host, device, streamed, scale});
    }
  };
  // Ranks all hold the same weights: streamed, beside the computation of their many frames, they take a rank
  // little.
  if (r.ranks == 1 || !r.weights_on_host) with_weights(false);
  if (r.weights_on_host) with_weights(true);
  for (const bool streamed : {false, true}) {
    if (streamed ? !r.weights_on_host : r.ranks > 1 && r.weights_on_host) continue;
    for (const int64_t scale : {1, 4, 16, 64, 1024}) all.push_back({host, host, host, streamed, scale});
  }
  return all;
}

/// Moves tensors from the host to files until the host's budget is kept; those that are read least often go
/// first. On a CPU all of them go, since host and device are one memory.
Choice within_host(const MemoryRequest& r, const Sizes& z, Choice choice) {
  const auto host = [&] { return bytes_in(Place::host, r, z, schedule_of(r, z, choice)); };
  for (Place Choice::*place : {&Choice::maps, &Choice::residual, &Choice::qkv}) {
    if (r.budget.scratch && (!r.gpu || host() > host_in_trunk(r)) && choice.*place == Place::host)
      choice.*place = Place::file;
  }
  return choice;
}

/// Whether each stage keeps the budget, and after the network what it still holds.
bool fits(const MemoryRequest& r, const Sizes& z, const MemoryPlan& plan) {
  const MemoryBudget& budget = r.budget;
  if (r.gpu && plan.peak_bytes() > budget.device) return false;
  Schedule after_trunk = plan.schedule;
  after_trunk.residual = after_trunk.qkv = Place::device;
  const int64_t in_heads = bytes_in(Place::host, r, z, after_trunk) + plan.pinned_bytes;
  for (const StageMemory& stage : plan.stages) {
    const int64_t tensors = r.gpu ? 0 : plan.weight_bytes + stage.bytes();
    const int64_t taken = tensors + (is_after_trunk(stage) ? in_heads : plan.host_bytes),
                  left = is_after_trunk(stage) ? budget.host + budget.more_in_heads : host_in_trunk(r);
    if (taken > left) return false;
  }
  return (r.gpu ? bytes_of_waiting_weights(r, z) : plan.weight_bytes) <= budget.host;
}

void plan_traffic(const MemoryRequest& r, const Sizes& z, MemoryPlan& plan) {
  const Schedule& s = plan.schedule;
  const std::set<int64_t> kept = kept_layers(r.config, r.heads);
  const int64_t layers = kept.empty() ? 1 : *kept.rbegin() + 1;
  const int64_t residual = z.S * z.P * z.C * z.state, maps = map_bytes(r, z, r.config.depth);
  const bool merges =
      r.merge && merge_counts(z.all, z.rows, z.columns, r.config.special_tokens(), *r.merge).most_merged > 0;
  const auto count = [](Traffic& t, Place place, int64_t in, int64_t out) {
    if (place == Place::device) return;
    t.to_device += in;
    t.to_host += out;
    if (place != Place::file) return;
    t.from_scratch += in;
    t.to_scratch += out;
  };
  for (StageMemory& stage : plan.stages) {
    Traffic& t = stage.traffic;
    if (stage.stage == "patch_embed") {
      t.to_device += z.S * 3 * z.H * z.W;
      count(t, s.residual, 0, residual);
    } else if (stage.stage == "frame_block") {
      count(t, s.residual, layers * residual, (layers + static_cast<int64_t>(kept.size())) * residual);
    } else if (stage.stage == "global_block") {
      const int64_t reads = merges ? 6 : 2;  // metric twice, q, k, v, and the end
      count(t, s.residual, (layers * reads + static_cast<int64_t>(kept.size())) * residual,
            layers * residual);
      count(t, s.maps, 0, maps);
      count(t, s.qkv, layers * attention_bytes(r, z), layers * attention_bytes(r, z));
    } else if (is_after_trunk(stage)) {
      count(t, s.maps, maps / std::max<int64_t>(1, dense_heads(r)), 0);
    }
    if (s.stream_weights && stage.stage == "patch_embed")
      t.to_device +=
          (z.S + s.embed_frames - 1) / s.embed_frames * part_bytes(r, z, "aggregator.patch_embed.blocks.");
    if (s.stream_weights && stage.stage == "frame_block")
      t.to_device += part_bytes(r, z, "aggregator.frame_blocks.");
    if (s.stream_weights && stage.stage == "global_block")
      t.to_device += part_bytes(r, z, "aggregator.global_blocks.");
    if (s.stream_weights && stage.stage == "camera_head") t.to_device += part_bytes(r, z, "camera_head.");
  }
}

}  // namespace

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

std::string plan_text(const MemoryPlan& plan) {
  const Schedule& s = plan.schedule;
  std::string text = gigabytes(plan.peak_bytes()) + " for tensors at work";
  if (plan.host_bytes > 0) text += ", " + gigabytes(plan.host_bytes) + " of the host";
  if (plan.scratch_bytes > 0) text += ", " + gigabytes(plan.scratch_bytes) + " of files";
  const auto add = [&](const char* what, Place place) {
    if (place != Place::device)
      text += std::string("; ") + what + (place == Place::host ? " on the host" : " in files");
  };
  add("the heads' maps", s.maps);
  add("the residual stream", s.residual);
  add("q, k and v", s.qkv);
  if (s.stream_weights) text += "; weights streamed";
  if (!plan.stream.reason.empty()) text += "; attention streamed: " + plan.stream.reason;
  return text + "; " + std::to_string(s.pass_frames) + " frames at a time";
}

std::string budget_refusal(const MemoryRequest& request, const MemoryPlan& smallest) {
  const MemoryBudget& budget = request.budget;
  const int64_t device = smallest.peak_bytes(), host = smallest.host_bytes + (request.gpu ? 0 : device);
  if (request.gpu && device > budget.device)
    return "memory: " + std::to_string(request.frames) + " frames need at least " + gigabytes(device) +
           " of the GPU for tensors, and " + gigabytes(std::max<int64_t>(0, budget.device)) +
           " are free for them";
  return "memory: " + std::to_string(request.frames) + " frames need at least " + gigabytes(host) +
         " of the host's memory, and the budget leaves " +
         gigabytes(std::max<int64_t>(0, host_in_trunk(request))) +
         (budget.scratch ? "" : "; --scratch lets files take a part");
}

int64_t weight_bytes(const MemoryRequest& request) {
  return part_bytes(request, Sizes(request), "");
}

MemoryPlan plan_memory(const MemoryRequest& request, int at_least) {
  const Sizes z(request);
  std::optional<MemoryPlan> smallest;
  int passed_over = 0;
  for (const Choice& choice : choices(request)) {
    if (!request.gpu && choice.stream_weights) continue;
    MemoryPlan plan = plan_with(request, z, within_host(request, z, choice));
    plan.fits = fits(request, z, plan);
    if (plan.fits && passed_over++ >= at_least) {
      if (plan.schedule.qkv != Place::device)
        plan.stream = choose_stream(stream_shape(request, z), plan.schedule.attention_bytes);
      return plan;
    }
    if (!smallest || plan.peak_bytes() < smallest->peak_bytes()) smallest = std::move(plan);
  }
  smallest->fits = false;
  return *smallest;
}

}  // namespace vggt
