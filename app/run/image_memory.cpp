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

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// Whether reading a source once leaves it as it is.
bool stays(const fs::path& source) {
  return source.empty() || fs::is_regular_file(source) || fs::is_directory(source);
}

/// Throws where an image, or the picture, does not fit.
void check_images(const RunPlan& plan, const FrameSet& sized) {
  std::size_t most = 0;
  for (const Frame& frame : sized.frames) most = std::max(most, frame.source_bytes);
  if (const auto images = exported_images(plan, sized))
    most = std::max(most, most_export_bytes(plan.outputs.exports, *images, sized));
  const int64_t picture = picture_bytes(plan), bytes = std::max(static_cast<int64_t>(most), picture);
  if (bytes == 0 || bytes <= plan.limits.images) return;
  // How many frames a video has only decoding tells.
  const bool stores = !plan.limits.storage.scratch && kind_of_source(plan.frames) != SourceKind::video;
  const std::string for_image = plan.limits.host_memory_for(bytes);
  const int64_t for_frames = stores ? plan.limits.host_memory_to_store(stored_bytes(plan, sized)) : 0;
  const auto for_network =
      least_host_memory(plan.given, plan.model.options.device, plan.limits, request_for(plan.memory, sized),
                        std::max<int64_t>(std::stoll(for_image) * 1'000'000, for_frames));
  const std::string what = bytes == picture ? "the picture takes " : "one image takes ",
                    when = bytes == picture ? " MB while it is drawn" : " MB while it is read or exported";
  throw std::invalid_argument("host-memory: beside the program, its weights and what waits, " + what +
                              std::to_string(bytes / 1'000'000) + when + "; give at least " +
                              for_network.value_or(for_image));
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

void check_stored(const RunPlan& plan, const MemoryRequest& request, int64_t bytes) {
  const HostStorage& storage = plan.limits.storage;
  if (!plan.limits.host || storage.scratch || bytes <= storage.bytes) return;
  constexpr int64_t kMegabyte = 1'000'000;
  const int64_t enough = plan.limits.host_memory_to_store(bytes);
  throw std::invalid_argument(
      "host-memory: frames and maps take " + std::to_string(bytes / kMegabyte) + " MB, of which " +
      std::to_string(storage.bytes / kMegabyte) +
      " MB may lie in memory; --scratch lets files take them, or give at least " +
      least_host_memory(plan.given, plan.model.options.device, plan.limits, request, enough)
          .value_or(std::to_string(enough / kMegabyte + 1) + "MB"));
}

void check_stored(const RunPlan& plan, const FrameSet& frames) {
  check_stored(plan, request_for(plan.memory, frames), stored_bytes(plan, frames));
}

void check_image_memory(const RunPlan& plan, bool with_network) {
  if (!plan.limits.host || !stays(plan.frames.source)) return;
  FrameOptions options = plan.frames;
  options.pixels = false;
  options.first_frame = true;
  options.masks.clear();
  const FrameSet sized = load_frames(options);
  check_images(plan, sized);
  // How many frames a video has only decoding tells.
  if (!with_network || kind_of_source(options) == SourceKind::video) return;
  check_stored(plan, sized);
  check_network_fits(plan, sized);
}

}  // namespace vggt
