#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

/// A scene of a batch.
struct BatchScene {
  std::string name;              // of its folder in the results, see safe_scene_name()
  std::filesystem::path source;  // what --frames would name, absolute
};

/// Scenes in the natural order of a folder's names or in the order of a list; no two have one name.
struct SceneList {
  std::vector<BatchScene> scenes;
  std::vector<std::string> passed_over;  // sub-folders without images, by name
};

/// The scenes that `where` names. A folder: each sub-folder with images in it or in its folder `images`, and
/// each video; they are called as sub-folder or file. A list: a source of frames a line, relative to the
/// list, called as its last part that is not `images`, or NAME, a tab and the source; '#' begins a comment.
/// What stands in `results` is no scene. Nobody has looked into the sources yet. Throws
/// std::invalid_argument: no scenes, two of one name, another kind of file, results among the frames;
/// std::system_error: it cannot be read.
SceneList find_scenes(const std::filesystem::path& where, const std::filesystem::path& results);

/// The name as that of a folder: in place of control characters, separators, bytes that are no UTF-8, and of
/// a dot in front there is '_'; at most 200 bytes. A name that the results need themselves gets a '_' in
/// front.
std::string safe_scene_name(std::string_view name);

}  // namespace vggt
