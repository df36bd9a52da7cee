#include "app/cli/first_contact.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace vggt {
namespace {

namespace fs = std::filesystem;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// Whether the PATH has an executable of this name.
bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, end - begin)) / program;
    if (::access(file.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

/// Runs `program file` without a terminal, as a child of nobody: it outlives this program.
bool start_alone(const char* program, const std::string& file) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::setsid();
    if (const pid_t own = ::fork(); own != 0) ::_exit(own < 0 ? 1 : 0);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
    ::execlp(program, program, file.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

std::string short_help_text() {
  return "vggt-recon: photographs or a video in, a 3D scene out\n"
         "\n"
         "  vggt-recon photos/                      a folder of images; the scene goes to photos-scene/\n"
         "  vggt-recon walk.mp4 --fps 2             a video, two frames a second\n"
         "  vggt-recon photos/ --out scene.ply      the scene elsewhere\n"
         "  vggt-recon photos/ --dry-run            what it would take, without doing it\n"
         "  vggt-recon photos/ --export colmap      for other programs too\n"
         "  vggt-recon photos/ --weights FILE       another model than the small one\n"
         "\n"
         "vggt-recon --help lists all options and commands.\n";
}

bool looks_like_frames(const std::string& argument) {
  std::error_code ignored;
  return argument.find_first_of("./") != std::string::npos || fs::exists(argument, ignored);
}

std::string named_frames(const std::string& frames) {
  fs::path path(frames);
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  const fs::path name = path.filename();
  if (!name.empty() && name != "." && name != "..") return frames;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  return error ? frames : whole.string();
}

std::string out_beside(const std::string& frames) {
  std::error_code ignored;
  fs::path path(named_frames(frames));
  if (!path.has_filename()) path = path.parent_path();
  const bool is_file = fs::is_regular_file(path, ignored);
  const std::string name = (is_file ? path.stem() : path.filename()).string();
  if (name.empty() || name == "." || name == ".." ||
      (fs::exists(path, ignored) && !is_file && !fs::is_directory(path)))
    throw std::invalid_argument(frames + ": there is no place for the scene beside it: name one with --out");
  return (path.parent_path() / (name + "-scene")).string() + "/";
}

bool open_in_viewer(const fs::path& file) {
  constexpr const char* kViewer = "xdg-open";
  const bool has_desktop = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
  return has_desktop && is_installed(kViewer) && start_alone(kViewer, fs::absolute(file).string());
}

std::string viewing_text(const fs::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".html") return "open " + file.string() + " in a browser to look at the scene";
  if (extension == ".ply")
    return "open " + file.string() + " in MeshLab, CloudCompare or Blender to look at it";
  return "open " + file.string() + " to look at it";
}

}  // namespace vggt
