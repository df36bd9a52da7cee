#include "app/scene/known_cameras.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "app/scene/frame_match.h"
#include "io/files/text.h"
#include "io/scene/image_view.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

/// Names of frames as they may be spelt: the file's name, with its extension or without.
std::set<std::string> spellings(const std::vector<std::string>& names) {
  std::set<std::string> result;
  for (const std::string& name : names) {
    const fs::path file = fs::path(name).filename();
    result.insert(file.string());
    result.insert(file.stem().string());
  }
  return result;
}

/// What the names of all frames of a video or of a tensor file begin with; empty for images.
std::string common_source(const FrameSet& frames) {
  const std::string& name = frames.frames.front().file;
  const std::size_t number = name.rfind('#');
  return number == std::string::npos ? "" : name.substr(0, number + 1);
}

void refuse_unknown(const FrameSet& frames, const std::vector<std::string>& unmatched,
                    const std::string& where) {
  if (unmatched.empty()) return;
  const std::set<std::string> others = spellings(frames.not_taken);
  const std::string source = common_source(frames);
  std::vector<std::string> unknown;
  for (const std::string& name : unmatched) {
    const fs::path file = fs::path(name).filename();
    const bool of_source = !source.empty() && file.string().starts_with(source);
    if (!of_source && !others.contains(file.string()) && !others.contains(file.stem().string()))
      unknown.push_back(name);
  }
  if (unknown.empty()) return;
  std::string text = where + ": names the frame '" + printable(unknown.front()) + "'";
  if (unknown.size() > 1) text += " and " + std::to_string(unknown.size() - 1) + " others";
  throw std::invalid_argument(text + " that the frames do not include, such as '" +
                              printable(frames.frames.front().file) + "'");
}

/// Whether a camera is higher than wide as the upright frame is and the stored one is not, or the reverse.
bool has_upright_shape(const KnownFrame& frame) {
  const Camera& camera = frame.known->camera;
  const bool sideways = frame.known->as_stored && frame.quarter_turns % 2 != 0;
  return sideways && camera.width > 0 && camera.height > 0 && camera.width != camera.height &&
         frame.width != frame.height && (camera.width > camera.height) == (frame.width > frame.height);
}

}  // namespace

void complete(Camera& camera, int width, int height) {
  constexpr int kAngleAlone = 1;  // the width that readers give such cameras
  if (!camera.has_intrinsics() || (camera.width > kAngleAlone && camera.height > 0)) return;
  if (camera.width == kAngleAlone) {
    camera.k.diagonal().head<2>() *= width;
    camera.k(0, 2) = (width - 1) / 2.0;
  }
  camera.k(1, 2) = (height - 1) / 2.0;
}

std::vector<Camera> upright_cameras(const std::vector<KnownFrame>& frames) {
  const bool were_upright = std::ranges::any_of(frames, has_upright_shape);
  std::vector<Camera> cameras;
  for (const KnownFrame& frame : frames) {
    Camera& camera = cameras.emplace_back(frame.known->camera);
    if (!frame.known->as_stored || frame.quarter_turns == 0 || were_upright) continue;
    auto [width, height] = std::pair(frame.width, frame.height);
    if (frame.quarter_turns % 2 != 0) std::swap(width, height);
    complete(camera, width, height);
    if (camera.has_intrinsics() && camera.height == 0) {
      camera.width = width;
      camera.height = height;
    }
    camera = turned_clockwise(camera, frame.quarter_turns);
  }
  return cameras;
}

std::vector<std::optional<Camera>> match_cameras(const FrameSet& frames,
                                                 const std::vector<FrameCamera>& known,
                                                 const std::string& where, const char* theirs_name) {
  std::vector<FrameKey> ours, theirs;
  std::vector<const FrameCamera*> valid;
  for (const Frame& frame : frames.frames) ours.push_back({frame.file, frame.time_s});
  for (const FrameCamera& frame : known) {
    if (!frame.camera.valid) continue;
    if (frame.file.empty() && !frame.time_s)
      throw std::invalid_argument(where + ": its cameras have neither names nor times");
    valid.push_back(&frame);
    theirs.push_back({frame.file, frame.time_s});
  }
  const FrameMatch match = [&] {
    try {
      return match_frames(ours, theirs, {"the frames", theirs_name});
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(where + ": " + error.what());
    }
  }();
  std::vector<KnownFrame> matched;
  std::vector<bool> used(theirs.size());
  for (const auto& [frame, pose] : match.pairs) {
    const Frame& own = frames.frames[frame];
    matched.push_back({valid[pose], own.quarter_turns, own.original_width, own.original_height});
    used[pose] = true;
  }
  const std::vector<Camera> upright = upright_cameras(matched);
  std::vector<std::optional<Camera>> result(ours.size());
  for (std::size_t i = 0; i < upright.size(); ++i) result[match.pairs[i].first] = upright[i];
  std::vector<std::string> unmatched;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    if (!used[i] && !theirs[i].name.empty()) unmatched.push_back(theirs[i].name);
  }
  refuse_unknown(frames, unmatched, where);
  return result;
}

}  // namespace vggt
