#pragma once
#include <filesystem>

namespace vggt {

/// The file in a folder that a process makes for itself, by which others tell it from a user's that is named
/// alike. The process holds its lock (flock, which NFS has of files, not of folders) as long as it lives.
constexpr const char* kFolderMark = ".vggt-recon-mark";

/// Marks and locks a new folder. Returns the mark, open, which the caller closes; -1 and errno where that
/// fails, ENOENT where another process took the folder for an abandoned one before it was locked, and removed
/// it.
int mark_folder(const std::filesystem::path& folder);

/// Removes a folder with all that is in it, the mark last: so that a process which is killed meanwhile leaves
/// one that others remove. Throws nothing.
void remove_marked(const std::filesystem::path& folder) noexcept;

/// Removes a folder of this user with all that is in it, if it has a mark that nobody has locked, or if it is
/// empty, as one of a process that was killed before it made the mark. Where the file system knows no locks
/// it stays.
void remove_abandoned(const std::filesystem::path& folder);

}  // namespace vggt
