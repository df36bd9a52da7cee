#pragma once
#include <filesystem>
#include <optional>
#include <string>

// The folder where the program keeps what it learned of this machine. Nothing about it can go wrong for a
// run: what cannot be read or written costs the next run its time for learning, and nothing else.
namespace vggt {

/// vggt-recon/`name` in the user's folder for caches; nothing where the environment names none.
std::optional<std::filesystem::path> user_cache_path(const std::string& name);

/// Empty if there is no such file, it cannot be read, or it is larger than any cache of ours.
std::string read_cache(const std::filesystem::path& path);

/// Where other processes write the file at the same time, the last one's text stays, and none reads half a
/// file. An error of writing is ignored.
void write_cache(const std::filesystem::path& path, const std::string& text);

}  // namespace vggt
