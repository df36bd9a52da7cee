#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace vggt {

/// The page for who gives no arguments: what the program does, and the commands that most people need.
std::string short_help_text();

/// Whether an argument without an option before it may be frames: it exists, or is written like a path.
bool looks_like_frames(const std::string& argument);

/// Frames as they are named from anywhere: `.`, `..` and `a/..` as whole paths, others as they are.
std::string named_frames(const std::string& frames);

/// The folder of a run that names frames alone: photos-scene/ beside photos/, walk-scene/ beside walk.mp4.
/// Throws std::invalid_argument where there is no such place, as for a pipe.
std::string out_beside(const std::string& frames);

/// Shows a file by the desktop's viewer, which goes on alone. False if there is no desktop, or no viewer.
bool open_in_viewer(const std::filesystem::path& file);

/// How to look at a file, as one line.
std::string viewing_text(const std::filesystem::path& file);

}  // namespace vggt
