#include "app/batch/scene_options.h"

#include <array>
#include <stdexcept>

#include "io/frames/frame_sources.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlaceholder = "{scene}";
constexpr std::array kNamedByScene{&Options::masks, &Options::intrinsics, &Options::poses, &Options::align};

std::string replaced(std::string text, const std::string& name) {
  for (std::size_t at = 0; (at = text.find(kPlaceholder, at)) != text.npos; at += name.size())
    text.replace(at, kPlaceholder.size(), name);
  return text;
}

void check_inside(const char* option, const std::string& file) {
  const fs::path path(file);
  const bool is_name = path.is_relative() && path == path.filename() && file != "." && file != "..";
  if (file.empty() || is_name) return;
  throw std::invalid_argument(std::string(option) + ": '" + file +
                              "' lies in each scene's folder: give a name without folders");
}

/// Of a scene that nobody can read a run says so.
bool is_no_video(const fs::path& source) try {
  return kind_of_source(source) != SourceKind::video;
} catch (const std::exception&) {
  return false;
}

}  // namespace

void check_batch_options(const Options& options) {
  if (!options.frames.empty())
    throw std::invalid_argument("frames: a batch takes its frames from --scenes, found '" + options.frames +
                                "'");
  if (options.out.empty()) throw std::invalid_argument("--out is missing (see vggt-recon batch --help)");
  std::error_code ignored;
  if (fs::exists(options.out, ignored) && !fs::is_directory(options.out, ignored))
    throw std::invalid_argument("out: " + options.out + " is no folder, which the results of a batch need");
  if (options.open && !options.report)
    throw std::invalid_argument(
        "open: a batch has nothing to open but the page of its scenes, which needs --report");
  check_inside("picture", options.picture);
  check_inside("save-predictions", options.save_predictions);
}

fs::path scene_folder(const Options& batch, const std::string& name) {
  return fs::path(batch.out) / name;
}

Options scene_options(const Options& batch, const BatchScene& scene) {
  Options options = batch;
  const fs::path folder = scene_folder(batch, scene.name);
  options.frames = scene.source.string();
  options.out = (folder / "").string();  // ends in a slash: a folder, whatever its name is
  for (std::string* file : {&options.picture, &options.save_predictions}) {
    if (!file->empty()) *file = (folder / *file).string();
  }
  for (std::string Options::*member : kNamedByScene) options.*member = replaced(options.*member, scene.name);
  if ((options.fps || options.stride) && is_no_video(scene.source)) {
    options.fps.reset();
    options.stride.reset();
  }
  return options;
}

Options common_options(const Options& batch) {
  Options options = scene_options(batch, {"-", "-"});
  for (std::string Options::*member : kNamedByScene) {
    if ((batch.*member).find(kPlaceholder) == std::string::npos) continue;
    (options.*member).clear();
    options.refine.clear();  // which may need what was just taken away
  }
  return options;
}

}  // namespace vggt
