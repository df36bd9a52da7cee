#include "app/batch/scene_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "io/files/file_place.h"
#include "io/files/text.h"
#include "io/files/text_file.h"
#include "io/files/utf8.h"
#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

bool is_images(const fs::path& path) {
  return path.filename() == "images";
}

/// What a source is called: its last part, but for an `images` that scenes keep their frames in.
std::string name_of(const fs::path& source) {
  fs::path path = plain_path(source);
  if (!path.has_filename()) path = path.parent_path();
  if (is_images(path) && path.parent_path().has_filename()) path = path.parent_path();
  return path.filename().string();
}

/// Whether the folder holds images. One that cannot be read counts: as a scene it says so itself.
bool holds_images(const fs::path& folder) {
  try {
    return !find_images(folder, SourceKind::folder).names.empty();
  } catch (const std::invalid_argument&) {
    return false;
  } catch (const std::system_error&) {
    return true;
  }
}

/// The folder itself or its folder `images`, whichever holds images; empty: neither does.
fs::path frames_in(const fs::path& folder) {
  if (holds_images(folder)) return folder;
  std::error_code ignored;
  const fs::path images = folder / "images";
  return fs::is_directory(images, ignored) && holds_images(images) ? images : fs::path();
}

bool is_video(const fs::path& file) {
  try {
    return fs::is_regular_file(file) && kind_of_source(file) == SourceKind::video;
  } catch (const std::exception&) {
    return false;  // a file that cannot be looked at
  }
}

bool same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;  // where one does not exist yet
  return fs::equivalent(a, b, ignored) || plain_path(a) == plain_path(b);
}

/// Results of an earlier batch may be there.
void refuse_frames_in(const fs::path& results) {
  if (!fs::exists(results / "manifest.jsonl") && !frames_in(results).empty())
    throw std::invalid_argument(results.string() + ": the results would lie among the frames of a scene");
}

/// Several files of one folder may have one safe name: those whose names had to be changed for it get
/// another, such as NAME~2.
void make_names_distinct(std::vector<BatchScene>& scenes) {
  std::set<std::string> taken;
  for (const BatchScene& scene : scenes) {
    if (scene.name == name_of(scene.source)) taken.insert(scene.name);
  }
  for (BatchScene& scene : scenes) {
    if (scene.name == name_of(scene.source)) continue;
    const std::string name = scene.name;
    for (int i = 2; !taken.insert(scene.name).second; ++i) scene.name = name + "~" + std::to_string(i);
  }
}

SceneList scenes_of_folder(const fs::path& folder, const fs::path& results) {
  if (same(folder, results))
    throw std::invalid_argument(results.string() + ": the results would lie among the scenes");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) throw std::system_error(error, folder.string() + ": cannot be read");
  std::ranges::sort(names, natural_less);
  SceneList list;
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    if (same(path, results)) {
      refuse_frames_in(results);
      continue;
    }
    if (name.starts_with('.')) continue;
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      if (is_video(path)) list.scenes.push_back({safe_scene_name(name), path});
    } else if (const fs::path frames = frames_in(path); !frames.empty()) {
      list.scenes.push_back({safe_scene_name(name), frames});
    } else {
      list.passed_over.push_back(name);
    }
  }
  make_names_distinct(list.scenes);
  if (list.scenes.empty()) {
    throw std::invalid_argument(folder.string() + ": no sub-folder holds images, and there are no videos" +
                                (holds_images(folder) ? "; for one scene give --frames, without batch" : ""));
  }
  return list;
}

SceneList scenes_of_list(const fs::path& path, const fs::path& results) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  std::istringstream lines(read_text_file(path, kMaxBytes, "a list of scenes"));
  // A shell's <(...) lies in a folder that means nothing.
  const fs::path folder = fs::is_fifo(path) ? fs::path() : path.parent_path();
  SceneList list;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t tab = text.find('\t');
    const bool named = tab != text.npos;
    const fs::path source = folder / trimmed(named ? text.substr(tab + 1) : text);
    const std::string name = named ? std::string(trimmed(text.substr(0, tab))) : name_of(source);
    if (same(source, results)) refuse_frames_in(results);
    const fs::path frames = fs::is_directory(source) ? frames_in(source) : fs::path();
    list.scenes.push_back({safe_scene_name(name), frames.empty() ? source : frames});
  }
  if (list.scenes.empty()) throw std::invalid_argument(path.string() + ": lists no scenes");
  return list;
}

void refuse_equal_names(const std::vector<BatchScene>& scenes) {
  std::map<std::string, const BatchScene*> seen;
  for (const BatchScene& scene : scenes) {
    const auto [other, is_new] = seen.emplace(scene.name, &scene);
    if (is_new) continue;
    throw std::invalid_argument("two scenes are called '" + scene.name +
                                "': " + other->second->source.string() + " and " + scene.source.string() +
                                "; a list can name them: NAME, a tab, the path");
  }
}

}  // namespace

std::string safe_scene_name(std::string_view name) {
  constexpr std::size_t kMostBytes = 200;
  std::string safe;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(name.substr(i));
    const bool keeps = length > 0 && control_length(name.substr(i)) == 0 && name[i] != '/' && name[i] != '\\';
    const std::string_view part = keeps ? name.substr(i, length) : "_";
    if (safe.size() + part.size() > kMostBytes) break;
    safe += part;
    i += std::max<std::size_t>(1, length);
  }
  if (safe.empty()) safe = "_";
  if (safe[0] == '.') safe[0] = '_';
  const bool is_taken = safe == "manifest.jsonl" || safe == "index.html";
  return is_taken ? "_" + safe : safe;
}

SceneList find_scenes(const fs::path& where, const fs::path& results) {
  SceneList list;
  switch (kind_of_source(where)) {
    case SourceKind::folder:
      list = scenes_of_folder(where, results);
      break;
    case SourceKind::list:
      list = scenes_of_list(where, results);
      break;
    default:
      throw std::invalid_argument("scenes: " + where.string() +
                                  " is neither a folder of scenes nor a list; for one scene give --frames");
  }
  refuse_equal_names(list.scenes);
  for (BatchScene& scene : list.scenes) scene.source = plain_path(scene.source);
  return list;
}

}  // namespace vggt
