#include "app/run/read_frames.h"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/files/file_place.h"
#include "io/files/staged_files.h"
#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// A picture is what frames can be too: it must not replace one, nor become one of the next run.
void keep_picture_apart(const fs::path& source, const fs::path& picture, const FrameSet& frames) {
  const fs::path place = place_of(picture);
  std::error_code ignored;  // where the picture's folder does not exist yet
  if (fs::is_directory(source) && fs::equivalent(source, place.parent_path(), ignored)) {
    throw std::invalid_argument("picture: " + picture.string() + " would lie among the frames");
  }
  std::vector<fs::path> listed;
  for (const Frame& frame : frames.frames) listed.push_back(source.parent_path() / frame.file);
  check_apart({place}, listed);
}

/// The files that become frames, and those of the masks; of a pipe, which can be read once, none.
std::vector<fs::path> files_of(const FrameOptions& frames, const fs::path& masks) {
  std::vector<fs::path> files;
  std::error_code ignored;
  if (fs::is_directory(frames.source, ignored) || fs::is_regular_file(frames.source, ignored)) {
    const SourceKind kind = kind_of_source(frames);
    if (kind == SourceKind::folder || kind == SourceKind::list) {
      const ImageList list = find_images(frames.source, kind);
      for (std::size_t i = 0; i < list.names.size(); ++i) files.push_back(list.path(i));
    }
  }
  for (fs::recursive_directory_iterator at(masks, ignored), end; !ignored && at != end; at.increment(ignored))
    files.push_back(at->path());
  return files;
}

}  // namespace

void keep_frames(const FrameOptions& frames, const fs::path& masks, const std::vector<fs::path>& outputs) {
  std::vector<fs::path> standing;
  std::error_code ignored;
  for (const fs::path& output : outputs) {
    if (fs::exists(place_of(output), ignored)) standing.push_back(output);
  }
  if (!standing.empty()) check_apart(standing, files_of(frames, masks));
}

FrameSet read_frames(const FrameOptions& options, const Events& events) {
  FrameSet frames = load_frames(options, [&](int done, int total) {
    events.check_stop();
    events.progress("frames", "frames", done, total);
  });
  for (const std::string& warning : frames.warnings) events.warn(warning);
  for (const std::string& note : frames.notes) events.warn(note);
  return frames;
}

FrameSet size_frames(FrameOptions options, const Events& events) {
  options.pixels = false;
  options.gray_side = 0;
  return read_frames(options, events);
}

void check_frames(const RunPlan& plan, const FrameSet& frames) {
  if (const auto& picture = plan.outputs.paths.picture; picture && frames.images.empty()) {
    keep_picture_apart(plan.frames.source, *picture, frames);
  }
  check_given(plan.adjust.given, frames);
  check_placement(plan.placement, frames);
  const std::string queries = plan.model.queries_file.string();
  check_inside(plan.model.queries, frames.width, frames.height, queries);
  if (plan.model.queries.empty() || !frames.read_mask) return;
  std::vector<uint8_t> used(static_cast<std::size_t>(frames.width) * static_cast<std::size_t>(frames.height));
  frames.read_mask(0, used);
  check_unmasked(plan.model.queries, used, frames.width, queries);
}

}  // namespace vggt
