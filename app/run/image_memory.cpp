#include "app/run/image_memory.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "app/export/export_scene.h"
#include "app/run/merging.h"
#include "app/run/plan_table.h"
#include "app/run/process_memory.h"
#include "io/frames/frame_sources.h"
#include "io/frames/masks.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// Whether reading a source once leaves it as it is.
bool stays(const fs::path& source) {
  return source.empty() || fs::is_regular_file(source) || fs::is_directory(source);
}

/// The frames as far as headers tell of them; of a video one.
FrameSet sized_frames(const RunPlan& plan) {
  FrameOptions options = plan.frames;
  options.pixels = false;
  options.first_frame = true;
  options.masks.clear();
  return load_frames(options);
}

/// What an image or its mask takes while it is read.
int64_t most_source_bytes(const RunPlan& plan, const FrameSet& sized) {
  std::size_t most = most_mask_bytes(plan.frames, sized);
  for (const Frame& frame : sized.frames) most = std::max(most, frame.source_bytes);
  return static_cast<int64_t>(most);
}

/// What an image takes at most, or the picture.
int64_t most_image_bytes(const RunPlan& plan, const FrameSet& sized) {
  int64_t most = std::max(most_source_bytes(plan, sized), picture_bytes(plan));
  if (const auto images = exported_images(plan, sized))
    most = std::max(most, static_cast<int64_t>(most_export_bytes(plan.outputs.exports, *images, sized)));
  return most;
}

/// Throws: one of so many bytes does not fit. promised: frames, where more than are sized. has_format:
/// whether the format of a video's pixels is known.
[[noreturn]] void refuse_images(const RunPlan& plan, const FrameSet& sized, std::size_t promised,
                                int64_t bytes, bool has_format = true) {
  const int64_t picture = picture_bytes(plan);
  const std::string for_image = plan.limits.host_memory_for(bytes);
  MemoryRequest request = request_for(plan.memory, sized);
  request.frames = std::max(request.frames, static_cast<int64_t>(promised));
  MemoryLimits limits = plan.limits;
  limits.least = limits.host_megabytes_for(bytes);
  FrameOrigin origin = origin_of(plan, sized);
  if (request.frames > std::ssize(sized.frames)) origin.gray.reset();  // it is that of one frame
  limits.hold_in_memory(stored_bytes(plan, request, origin));
  const auto for_network = least_host_memory(limits, request, plan.given.merge == "auto");
  const std::string what = bytes == picture ? "the picture takes " : "one image takes ",
                    when = bytes == picture ? " MB while it is drawn" : " MB while it is read or exported";
  throw std::invalid_argument("host-memory: beside the program, its weights and what waits, " + what +
                              std::to_string(std::max<int64_t>(1, bytes / 1'000'000)) + when +
                              "; give at least " + for_network.value_or(for_image) +
                              (has_format ? "" : ", if its pixels are in its codec's usual format"));
}

/// Throws where one of so many bytes does not fit.
void check_images(const RunPlan& plan, const FrameSet& sized, int64_t bytes) {
  if (bytes == 0 || bytes <= plan.limits.images) return;
  const bool is_video = kind_of_source(plan.frames) == SourceKind::video;
  refuse_images(plan, sized, is_video ? promised_frames(plan.frames) : 0, bytes);
}

/// Of a video that may take more than --host-memory when it is only opened: throws as check_images(), by the
/// header of its container.
void refuse_by_header(const RunPlan& plan) {
  // Of a pixel: FFmpeg decodes the first frames to look at them. Of JPEG 2000 and CineForm in 4:4:4:4 the
  // most.
  constexpr int64_t kOpeningBytes = 27;
  const auto header = frames_of_header(plan.frames);
  if (!header) return;
  const Frame& frame = header->first.frames.front();
  const int64_t pixels = int64_t{frame.original_width} * frame.original_height;
  if (program_bytes() + kOpeningBytes * pixels <= *plan.limits.host) return;  // the decoder tells more
  const int64_t bytes = most_image_bytes(plan, header->first);
  if (bytes > plan.limits.images)
    refuse_images(plan, header->first, header->promised, bytes, header->has_format);
}

/// Throws as check_fits().
void check_network_fits(const RunPlan& plan, const FrameSet& sized) {
  MemoryRequest request = request_for(plan.memory, sized);
  request.budget = plan.model.options.budget;
  request.merge = choose_merging(request, plan.given.merge, std::nullopt).merge;
  if (request.frames >= request.ranks) check_fits(plan, plan_network(request, std::nullopt));
}

}  // namespace

MemoryRequest request_for(MemoryRequest request, const FrameSet& frames) {
  request.frames = static_cast<int64_t>(frames.frames.size());
  request.height = frames.height;
  request.width = frames.width;
  return request;
}

std::optional<ExportedImages> exported_images(const RunPlan& plan, const FrameSet& frames) {
  const ExportPlan& exports = plan.outputs.exports;
  if (exports.files().empty() && exports.folders().empty()) return std::nullopt;
  return std::optional<ExportedImages>(std::in_place, exports, plan.frames.source, frames);
}

void hold_in_memory(RunPlan& plan, const FrameSet& frames) {
  hold_in_memory(plan, stored_bytes(plan, frames));
}

void hold_in_memory(RunPlan& plan, const StoredBytes& bytes) {
  MemoryLimits limits = plan.limits;
  // Ranks agree on one budget, and only one of them holds frames and maps.
  limits.hold_in_memory(plan.memory.ranks > 1 ? StoredBytes(bytes.all) : bytes);
  plan.keep_limits(limits);
}

void lend_to_frames(RunPlan& plan) {
  MemoryLimits limits = plan.limits;
  if (!limits.host || limits.storage.scratch || !stays(plan.frames.source)) return;
  const int64_t decoding = std::max(limits.images / 2, most_source_bytes(plan, sized_frames(plan)));
  const int64_t lent = std::max<int64_t>(0, limits.images - decoding);
  limits.storage.bytes += lent;
  limits.network.host -= lent;
  limits.images -= lent;
  plan.keep_limits(limits);
}

void plan_image_memory(RunPlan& plan, bool with_network) {
  if (!plan.limits.host || !stays(plan.frames.source)) return;
  refuse_by_header(plan);
  const FrameSet sized = sized_frames(plan);
  // How many frames a video has only decoding tells.
  const bool all_are_sized = kind_of_source(plan.frames) != SourceKind::video,
             checks_network = with_network && all_are_sized;
  if (all_are_sized) hold_in_memory(plan, sized);
  const int64_t image = most_image_bytes(plan, sized);
  plan.limits.least = plan.limits.host_megabytes_for(image);
  // Without a scratch folder the refusal of the network names what frames and maps take.
  const bool network_first = checks_network && !plan.limits.storage.scratch;
  if (network_first) check_network_fits(plan, sized);
  check_images(plan, sized, image);
  if (checks_network && !network_first) check_network_fits(plan, sized);
}

}  // namespace vggt
