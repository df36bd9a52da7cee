#include "app/run/process_memory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "app/adjust/adjust_scene.h"
#include "app/export/depth_tracks.h"
#include "app/export/export_maps.h"
#include "app/export/export_scene.h"
#include "app/run/image_memory.h"
#include "app/run/refine_depth.h"
#include "io/files/machine_share.h"
#include "io/frames/frame_sources.h"
#include "io/frames/masks.h"
#include "model/memory_terms.h"

namespace vggt {
namespace {

// What the process takes beside what it works on, as measured. On a CPU more than program_bytes(): for
// kernels, and for each thread. What else it may hold must not depend on that figure, which differs from run
// to run, but goes by a usual one, to which CUDA's libraries add theirs. On an H200, in all; the convolutions
// of the dense heads bring cuDNN.
constexpr int64_t kCpuKernels = 18'000'000, kUsualCpuProgram = 255'000'000;
constexpr int64_t kGpuProgram = 865'000'000, kCudnn = 280'000'000;
constexpr int64_t kBf16Heads = 330;  // of a frame's pixel, where cuDNN computes in bf16
constexpr int64_t kManyOnGpu = 25, kFewerOnGpu = 8'000'000;  // with fewer frames a GPU's program takes less
constexpr int64_t kGpuEarly = 775'000'000;   // while images are decoded, before kernels are loaded
constexpr int64_t kGpuLoaded = 240'000'000;  // what a process's first run loads, beside cuDNN
// What the allocator and kernels keep of what they had. Of a large network on a GPU that is less: reading its
// weights takes what images have left, and the host takes its maps as fast as they come.
constexpr double kCpuKept = 1.35, kGpuKept = 0.6, kLargeKept = 0.3;  // of tensors; of frames and maps
constexpr int64_t kLargeNetwork = 500'000'000;                       // bytes of weights
constexpr int64_t kMostCpuKept = 65'000'000, kMostGpuKept = 330'000'000;
// The tracker's tensors are many and of blocks that are kept.
constexpr double kTracksKept = 0.42;
constexpr int64_t kMostTracksKept = 290'000'000;
constexpr int64_t kTracker = 60'000'000, kTrackerHidden = 384;  // what else it takes on a CPU, if so wide
// Of large frames more is kept: the more the nearer their pixels are to kLargestFrame, and no more beyond.
constexpr int64_t kMoreOfLarge = 80'000'000;
constexpr double kLargeFrame = 140'000, kLargestFrame = 380'000;
// Code and tables that stages after the network on a CPU bring, and what is kept of them: as measured, also
// under a limit, with an adjustment and without one.
constexpr int64_t kCpuAfter = 22'000'000, kCpuAfterWithLimit = 10'000'000,
                  kCpuAfterWithLimitAlone = 34'000'000;
constexpr int64_t kChunksAtOnce = 4;  // of a dense head's maps: copied, waiting twice, at work
constexpr int64_t kManyRefined = 5, kFewerRefined = 12'000'000;  // with fewer frames a CPU's takes less
constexpr int64_t kMatchingCopies = 36, kMoreCopies = 25;  // of a gray image: a thread's, and all threads'
constexpr int64_t kMatchingCopiesWithLimit = 20;           // of which nothing is kept
constexpr double kRefinedWithLimit = .6;  // of a GPU's refinement, of which nothing is kept either
constexpr int64_t kThinning = 32;         // bytes of a point that thinning leaves, while it chooses
// Area of what is seen, in squares of the median depth, in whose shares --voxel counts: of the more confident
// half of the pixels, and what the rest adds.
constexpr double kSurface = 5, kUncertain = 18;
constexpr int64_t kPicture = 44;  // bytes of a pixel of the picture, while it is drawn
constexpr int64_t kDrawn = 40;    // and of a point
constexpr int64_t kMostDrawn = 2'000'000, kFewestDrawn = 100'000;  // more points make it no better
constexpr int64_t kExported = 7;  // bytes of a pixel of an image that is exported, not as it is: of 8 bits

int64_t usual_cpu_program() {
  return kUsualCpuProgram + cuda_library_bytes();
}

int64_t threads_of(const RunPlan& plan) {
  return plan.frames.threads > 0 ? plan.frames.threads : usable_cores();
}

/// What lies in memory from stage to stage, as far as the storage's limit allows.
struct Stored {
  int64_t frames = 0, gray = 0, one_gray = 0, maps = 0;

  int64_t of_frames() const { return frames + gray; }
  int64_t all() const { return frames + gray + maps; }
};

/// Of the gray copy of an original, where frames are so many.
int64_t gray_bytes(const FrameOptions& options, int64_t frames, int64_t width, int64_t height) {
  if (options.gray_side == 0) return 0;
  const auto longer = static_cast<double>(std::max<int64_t>(1, std::max(width, height)));
  const double scale = std::min(1.0, options.gray_side / longer);
  return std::min(
      static_cast<int64_t>(scale * scale * static_cast<double>(width) * static_cast<double>(height)),
      static_cast<int64_t>(options.gray_bytes) / std::max<int64_t>(1, frames));
}

Stored wanted(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin) {
  const int64_t frame = request.width * request.height, pixels = request.frames * frame;
  Stored result{.frames = 3 * pixels};
  result.one_gray = gray_bytes(plan.frames, request.frames, origin.width, origin.height);
  result.gray = origin.gray.value_or(request.frames * result.one_gray);
  const CloudSource source = plan.scene.source;
  int64_t pixel = source == CloudSource::none ? 0 : source == CloudSource::depth ? 8 : 16;
  if (holds_depth_apart(plan)) pixel += 8;
  result.maps = pixel * pixels;
  return result;
}

/// What of it lies in memory; the rest lies in files.
Stored stored(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin) {
  Stored result = wanted(plan, request, origin);
  int64_t left = plan.limits.storage.bytes;
  for (int64_t* const bytes : {&result.frames, &result.gray, &result.maps}) {
    *bytes = std::min(*bytes, left);
    left -= *bytes;
  }
  return result;
}

/// Of so many points those that the filters hold at once.
int64_t held_points(const CloudFilters& filters, int64_t points) {
  const bool whole = filters.voxel > 0 || filters.outliers;
  return whole || filters.max_points == 0 ? points : std::min(points, filters.max_points);
}

/// Voxels by points: surfaces have as many as squares of a side, up to one a point. percentile: of the least
/// confident pixels, those that give none.
double voxel_share(double side, int64_t points, double percentile) {
  const double area = kSurface + kUncertain * std::max(0.0, 1 - percentile / 50),
               squares = area / (side * side * static_cast<double>(std::max<int64_t>(1, points)));
  return squares / std::hypot(1.0, squares);
}

/// The matches of an adjustment between gray copies of so many pixels and their equations, as of frames that
/// all see the same, or as much as it may beside so many bytes.
int64_t adjusting_bytes(const RunPlan& plan, int64_t frames, int64_t gray, int64_t beside) {
  if (!plan.adjust.wanted) return 0;
  return std::min(adjustment_bytes(frames, gray), room_beside(plan, beside));
}

/// The refinement beside so many bytes; nothing where there is none.
RefinedAtOnce refining(const RunPlan& plan, const MemoryRequest& request, int64_t beside) {
  if (!plan.adjust.refines || request.frames < 2) return {};
  return {request.width * request.height, request.frames, working_threads(plan.frames.threads),
          room_beside(plan, beside)};
}

/// Depth maps while others are still to be refined, as far as they lie in memory.
int64_t refined_maps(const RunPlan& plan, const MemoryRequest& request, const Stored& kept) {
  constexpr int64_t kDepth = sizeof(float);
  return std::min(kDepth * request.frames * request.width * request.height,
                  std::max<int64_t>(0, plan.limits.storage.bytes - kept.all()));
}

/// Points while the filters work; few where they stream from the maps into the file.
int64_t point_bytes(const RunPlan& plan, const MemoryRequest& request, int64_t beside) {
  if (plan.scene.source == CloudSource::none) return 0;
  const SceneOptions& chosen = plan.scene.builder;
  const double share = chosen.conf_threshold ? 1 : 1 - chosen.conf_percentile / 100;
  const auto points =
      static_cast<int64_t>(share * static_cast<double>(request.frames * request.width * request.height));
  const CloudFilters filters = filters_within(plan, plan.keep_points, points, beside);
  const bool thinned = filters.thin_to > 0 && points > filters.thin_to;
  const int64_t held = held_points(filters, thinned ? filters.thin_to : points);
  int64_t bytes = bytes_of_a_point(filters, plan.keep_points, chosen.normals);
  if (filters.voxel > 0)  // each point has one at most
    bytes -= static_cast<int64_t>((1 - voxel_share(filters.voxel, points, chosen.conf_percentile)) *
                                  static_cast<double>(bytes_of_a_voxel(chosen.normals)));
  return std::max(held * bytes, thinned ? filters.thin_to * kThinning : 0) + picture_bytes(plan) +
         kDrawn * drawn_points(plan, held, beside);
}

bool reads(const RunPlan& plan, SourceKind kind) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(plan.frames.source, ignored) &&
         kind_of_source(plan.frames.source) == kind;
}

/// Of a video; 0 of other sources.
int64_t decoder_bytes_of(const RunPlan& plan) {
  return reads(plan, SourceKind::video) ? decoder_bytes(plan.frames.source) : 0;
}

/// How many frames of the largest image there are as good as.
int64_t large_frames(const MemoryRequest& request, const FrameOrigin& origin) {
  return std::min(request.frames, origin.as_large);
}

/// What so many frames of `one` bytes take where each thread holds one of them, or as many as images may take
/// at once if these are fewer; and the bytes beside them.
int64_t at_once(const RunPlan& plan, int64_t frames, int64_t one, int64_t beside) {
  const int64_t budget = static_cast<int64_t>(plan.frames.memory_budget_bytes) - beside,
                fitting = one > 0 ? std::max<int64_t>(1, budget / one) : 0;
  return std::min({fitting, threads_of(plan), frames}) * one + beside;
}

/// Sources while they become frames: images as large as the largest, on all threads.
int64_t source_bytes(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin,
                     int64_t one_gray) {
  const int64_t pixels = origin.width * origin.height,
                of_pixels = 3 * pixels + 3 * request.width * origin.height + (one_gray > 0 ? pixels : 0),
                decoder = decoder_bytes_of(plan);
  return at_once(plan, large_frames(request, origin),
                 decoder > 0 || origin.bytes == 0 ? of_pixels : origin.bytes, decoder);
}

/// What the allocator keeps of images that were decoded, without --host-memory: blocks of up to 32 MB, of
/// each thread that had one, up to 64 MB.
int64_t kept_of_images(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin) {
  constexpr int64_t kLargestBlock = 32 << 20, kMostOfThread = 64 << 20;
  const int64_t pixels = origin.width * origin.height;
  int64_t kept = 0;
  if (3 * pixels <= kLargestBlock) {
    kept = std::min(origin.bytes, kMostOfThread);
  } else if (pixels <= kLargestBlock && plan.frames.gray_side > 0) {
    kept = pixels;  // the gray copy, before it is reduced
  }
  const bool none = plan.limits.host || reads(plan, SourceKind::video);
  const int64_t threads = threads_of(plan);  // the first image of each is given back
  const int64_t frames = large_frames(request, origin);
  return none ? 0 : kept * std::clamp<int64_t>(frames - threads, 0, threads);
}

/// Images and maps while they are exported, as large as the largest one.
int64_t export_bytes(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin) {
  const ExportPlan& exports = plan.outputs.exports;
  const int64_t pixels = origin.width * origin.height;
  const bool named = exports.colmap || exports.nerfstudio;
  const int64_t decoder = named ? decoder_bytes_of(plan) : 0;
  int64_t maps = 0, images = 0;
  if (exports.needs_depth())
    maps = at_once(plan, large_frames(request, origin),
                   static_cast<int64_t>(
                       map_bytes(exports, static_cast<int>(origin.width), static_cast<int>(origin.height))),
                   0);
  if (named && decoder > 0) {
    images = decoder + kExported * pixels;
  } else if (named && exports.images == ExportedAs::undistorted) {
    images = at_once(plan, large_frames(request, origin), kExported * pixels, 0);
  }
  const bool by_depth =
      named && plan.model.options.heads.depth;  // of all frames, where one has few by matches
  const int64_t tracks = by_depth ? depth_track_bytes(request.frames, request.height * request.width) : 0;
  const int64_t glb = exports.glb ? glb_bytes(request.frames * request.height * request.width) : 0;
  return std::max(glb, std::max(maps, images) + tracks);
}

constexpr double kLevels = 1.4;  // bytes of the levels of a gray image that frames are matched by

/// In the trunk, while a head's maps become what it says of the frames, or after the network.
int64_t scratch_peak(const RunPlan& plan, const NetworkPlan& network, const FrameOrigin& origin) {
  if (!plan.limits.storage.scratch) return 0;
  const StoredBytes stored = stored_bytes(plan, network.request, origin);
  const MemoryPlan& memory = network.memory;
  const auto in_files = [&](int64_t bytes) {
    return std::max<int64_t>(0, bytes - plan.limits.storage.bytes);
  };
  int64_t peak =
      std::max(memory.scratch_bytes + in_files(stored.in_trunk), memory.kept_bytes + in_files(stored.all));
  const Heads& heads = network.request.heads;
  const int64_t all = dense_heads(network.request), with_maps = int64_t{heads.depth} + int64_t{heads.points};
  for (int64_t done = 0; done < with_maps; ++done) {
    const int64_t waiting = memory.map_file_bytes / all * (all - done),
                  said = (stored.in_heads - stored.in_trunk) / with_maps * (done + 1);
    peak = std::max(peak, memory.kept_bytes + waiting + in_files(stored.in_trunk + said));
  }
  return peak;
}

/// Without what masks take.
FrameOrigin origin_of_images(const RunPlan& plan, const FrameSet& frames) {
  FrameOrigin origin;
  int64_t most = 0, all = 0, gray = 0, largest = 0;
  const auto count = static_cast<int64_t>(frames.frames.size());
  for (const Frame& frame : frames.frames) {
    const int64_t pixels = int64_t{frame.original_width} * frame.original_height,
                  own = static_cast<int64_t>(frame.source_bytes), bytes = own > 0 ? own : 3 * pixels;
    all += bytes;
    largest = std::max(largest, bytes);
    gray += gray_bytes(plan.frames, count, frame.original_width, frame.original_height);
    origin.bytes = std::max(origin.bytes, own);
    if (pixels <= most) continue;
    most = pixels;
    origin.width = frame.original_width;
    origin.height = frame.original_height;
  }
  if (largest > 0) origin.as_large = (all + largest - 1) / largest;
  // Tensors of frames have no gray copies: they are matched by their own pixels.
  origin.gray = reads(plan, SourceKind::tensor_file) ? 0 : gray;
  return origin;
}

}  // namespace

FrameOrigin origin_of(const RunPlan& plan, const FrameSet& frames) {
  FrameOrigin origin = origin_of_images(plan, frames);
  origin.mask_bytes = static_cast<int64_t>(most_mask_bytes(plan.frames, frames));
  return origin;
}

StoredBytes stored_bytes(const RunPlan& plan, const MemoryRequest& request, const FrameOrigin& origin) {
  const Stored all = wanted(plan, request, origin);
  const bool are_tensors = reads(plan, SourceKind::tensor_file);
  const int64_t pixels = request.frames * request.width * request.height,
                masks = plan.frames.masks.empty() ? 0 : pixels,
                early = (are_tensors ? 0 : all.frames) + all.gray + masks;  // tensors are in memory before
  // After the network: the maps are held once more while they are corrected, beside the levels of what they
  // are matched by; later come the pixels that other frames confirm.
  int64_t later = plan.scene.builder.consistent > 0 ? pixels : 0;
  if (plan.adjust.wanted && request.frames > 1) {
    const auto matched = static_cast<double>(all.gray > 0 ? all.gray : pixels);
    later = std::max(later, 4 * pixels + static_cast<int64_t>(kLevels * matched));
  }
  return {early + all.maps + later, early, early + all.maps};
}

StoredBytes stored_bytes(const RunPlan& plan, const FrameSet& frames) {
  return stored_bytes(plan, request_for(plan.memory, frames), origin_of_images(plan, frames));
}

int64_t picture_bytes(const RunPlan& plan) {
  if (!plan.outputs.paths.picture) return 0;
  return kPicture * plan.outputs.picture_width * plan.outputs.picture_height;
}

int64_t drawn_points(const RunPlan& plan, int64_t points, int64_t held) {
  if (!plan.outputs.paths.picture) return 0;
  const int64_t fitting = (room_beside(plan, held) - picture_bytes(plan)) / kDrawn;
  return std::min({points, kMostDrawn, std::max(kFewestDrawn, fitting)});
}

bool holds_depth_apart(const RunPlan& plan) {
  const bool exported =
      plan.outputs.exports.needs_depth() || (plan.keep_maps && plan.model.options.heads.depth);
  return plan.scene.source != CloudSource::depth && (plan.adjust.wanted || exported);
}

int64_t room_beside(const RunPlan& plan, int64_t held) {
  constexpr double kUsed = .9;  // `held` may be a few percent more
  if (!plan.limits.host) return std::numeric_limits<int64_t>::max();
  const auto all = static_cast<int64_t>(kUsed * static_cast<double>(*plan.limits.host));
  // In a batch other scenes hold what is not this one's part of what the program and its weights leave.
  const bool on_gpu = plan.model.options.device.is_cuda();
  const int64_t weights = plan.limits.network.host - plan.limits.images,
                once = std::min(all, weights + (on_gpu ? kGpuProgram : usual_cpu_program())),
                part = once + (all - once) / plan.limits.parts;
  return std::max({part - held, plan.limits.images, int64_t{0}});
}

CloudFilters filters_within(const RunPlan& plan, bool in_memory, int64_t points, int64_t held) {
  CloudFilters filters = plan.scene.filters;
  if (!plan.limits.host) return filters;
  const auto fit = [&](int64_t bytes) {
    return std::max<int64_t>(1, (room_beside(plan, held) - picture_bytes(plan)) / bytes);
  };
  const int64_t bytes = bytes_of_a_point(filters, in_memory, plan.scene.builder.normals);
  if (bytes > 0 && held_points(filters, points) > fit(bytes)) {
    const int64_t most = fit(std::max(bytes, kThinning));
    filters.thin_to = filters.thin_to > 0 ? std::min(filters.thin_to, most) : most;
  }
  if (filters.thin_to > 0 && points > filters.thin_to)
    filters.thin_to = std::min(filters.thin_to, fit(kThinning));
  return filters;
}

namespace {

/// Of tensors on a CPU, for frames of so many pixels.
int64_t most_cpu_kept(int64_t pixels) {
  const auto size = static_cast<double>(pixels);
  const double large = std::clamp((size - kLargeFrame) / (kLargestFrame - kLargeFrame), 0.0, 1.0);
  return kMostCpuKept + static_cast<int64_t>(large * static_cast<double>(kMoreOfLarge));
}

/// What is kept of the rows of merged blocks. The allocator keeps blocks of up to 32 MB, and what lies in
/// their place next leaves gaps: of smaller rows than these, small ones.
int64_t kept_of_merged(const MemoryRequest& request) {
  constexpr int64_t kLeast = 16'000'000, kMost = 32 << 20, kKept = 50'000'000;
  const Sizes z(request);
  const int64_t bytes = merged_rows(request, z) * z.C * z.operand;
  return bytes >= kLeast && bytes <= kMost ? kKept : 0;
}

/// What is kept of tensors of so many bytes on a CPU. With --host-memory the allocator gives back at once
/// what is freed.
int64_t cpu_kept(const RunPlan& plan, const MemoryRequest& request, int64_t tensors) {
  if (plan.limits.host) return 0;
  const auto share = [&](double part) { return static_cast<int64_t>(part * static_cast<double>(tensors)); };
  const int64_t kept =
      std::min(most_cpu_kept(request.width * request.height), share(kCpuKept)) + kept_of_merged(request);
  return request.runs_tracker() ? std::max(kept, std::min(kMostTracksKept, share(kTracksKept))) : kept;
}

/// With nothing of the scratch files.
ProcessBytes host_bytes(const RunPlan& plan, const NetworkPlan& network, const FrameOrigin& origin) {
  const MemoryRequest& request = network.request;
  const MemoryPlan& memory = network.memory;
  const Stored kept = stored(plan, request, origin);
  const bool dense = request.heads.depth || request.heads.points;
  const int64_t chunk = dense ? std::min(memory.schedule.dense_frames, request.frames) : 0;
  const int64_t of_pixel = request.heads.points ? 16 : 8;
  const int64_t chunks = kChunksAtOnce * chunk * request.width * request.height * of_pixel;
  const int64_t of_masks = at_once(plan, large_frames(request, origin), origin.mask_bytes, 0),
                of_sources = std::max(source_bytes(plan, request, origin, kept.one_gray), of_masks),
                decoding = (origin.is_decoded ? 0 : of_sources) + kept.of_frames(),
                kept_images = origin.is_decoded ? 0 : kept_of_images(plan, request, origin);
  const int64_t threads = working_threads(plan.frames.threads);
  const int64_t gray = kept.one_gray > 0 ? kept.one_gray : request.width * request.height;
  const int64_t least = plan.adjust.wanted ? adjustment_bytes(request.frames, gray, /*at_least=*/true) : 0;
  const int64_t copies = plan.limits.host ? kMatchingCopiesWithLimit : kMatchingCopies;
  const int64_t matchers = std::min(threads, request.frames);  // few frames keep few threads busy
  const int64_t matching =
      plan.adjust.wanted && request.frames > 1 ? (matchers * copies + kMoreCopies) * kept.one_gray : 0;
  const auto after = [&](int64_t held) {
    return std::max(point_bytes(plan, request, held), export_bytes(plan, request, origin));
  };
  if (!request.gpu) {
    const int64_t weights = memory.weight_bytes, tensors = memory.peak_bytes() - weights;
    // The maps come when the trunk's tensors are gone.
    int64_t with_maps = 0;
    for (const StageMemory& stage : memory.stages) {
      if (stage.stage.ends_with("_head")) with_maps = std::max(with_maps, stage.bytes());
    }
    const bool adjusts = plan.adjust.wanted && request.frames > 1;
    const int64_t code_after = !plan.limits.host ? kCpuAfter
                               : adjusts         ? kCpuAfterWithLimit
                                                 : kCpuAfterWithLimitAlone;
    const int64_t program =
        program_bytes() + kCpuKernels + threads * kThreadBytes +
        (threads_of(plan) - threads) * kIdleThreadBytes +
        (request.runs_tracker() ? kTracker * request.config.track_hidden / kTrackerHidden : 0);
    const int64_t of_tensors = cpu_kept(plan, request, tensors), base = program + of_tensors + kept_images;
    const int64_t held = usual_cpu_program() + of_tensors + kept.all() + weights;
    const RefinedAtOnce refined = refining(plan, request, held);
    // Of what decoders left the later stages use all but the blocks of pixels.
    const int64_t kept_pixels = std::min(kept_images, threads * 3 * origin.width * origin.height);
    const int64_t adjusting = adjusting_bytes(plan, request.frames, gray, held) + matching,
                  fewer = kFewerRefined * std::max<int64_t>(0, kManyRefined - request.frames),
                  to_refine =
                      refined.bytes > 0 ? refined.bytes + refined_maps(plan, request, kept) - fewer : 0,
                  later = code_after + kept_pixels + std::max({adjusting, to_refine, after(held)});
    return {.host = std::max({program + weights + decoding,
                              base + kept.of_frames() + weights + tensors + memory.host_bytes,
                              base + kept.all() + weights + with_maps + memory.host_bytes,
                              program + kept.all() + weights + later}),
            .held = held,
            .adjusting = least,
            .refining = refined.least,
            .loaded = kCpuKernels + code_after,
            .common = program + weights + code_after};
  }
  const int64_t weights = memory.schedule.stream_weights ? weight_bytes(request) : 0;
  const int64_t in_bf16 = dense && request.heads_in_bf16 ? kBf16Heads * request.width * request.height : 0;
  const int64_t fewer = kFewerOnGpu * std::max<int64_t>(0, kManyOnGpu - request.frames);
  const bool is_large = weight_bytes(request) >= kLargeNetwork;
  const auto base = [&](int64_t held) {
    const double share = is_large ? kLargeKept : kGpuKept;
    return kGpuProgram - fewer + (dense ? kCudnn : 0) + in_bf16 + (request.ranks > 1 ? kHostNcclBytes : 0) +
           held + (is_large ? 0 : kept_images) +
           std::min(kMostGpuKept, static_cast<int64_t>(share * static_cast<double>(held)));
  };
  const int64_t held = base(kept.all()) + weights,
                of_maps = base(kept.all() + (is_large ? 0 : chunks)) + weights;
  const RefinedAtOnce refined = refining(plan, request, held);
  const int64_t adjusting = adjusting_bytes(plan, request.frames, gray, of_maps) + matching,
                refining_bytes = static_cast<int64_t>((plan.limits.host ? kRefinedWithLimit : 1) *
                                                      static_cast<double>(refined.bytes)),
                to_refine = refining_bytes > 0 ? refining_bytes + refined_maps(plan, request, kept) : 0;
  return {.host = std::max({kGpuEarly + decoding, base(kept.of_frames()) + memory.host_bytes,
                            of_maps + std::max(adjusting, to_refine), held + after(held)}),
          .held = held,
          .adjusting = least,
          .refining = refined.least,
          .loaded = kGpuLoaded + (dense ? kCudnn : 0),
          .common = base(0) + weights};
}

}  // namespace

ProcessBytes predict_process(const RunPlan& plan, const NetworkPlan& network, const FrameOrigin& origin) {
  ProcessBytes bytes = host_bytes(plan, network, origin);
  bytes.scratch = scratch_peak(plan, network, origin);
  return bytes;
}

}  // namespace vggt
