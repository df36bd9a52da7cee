#pragma once
#include <filesystem>

namespace vggt {

/// A run's own folder for data that does not fit into memory: vggt-recon-PID-XXXXXX in a folder that is
/// given. The destructor removes it with all that lies in it (scratch_file.h), whether the run ended well or
/// not; that of a run which was killed is removed by the next one in the same place (folder_mark.h).
class ScratchFolder {
 public:
  /// Throws std::system_error naming `parent`, which must exist.
  explicit ScratchFolder(const std::filesystem::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // the folder's mark
};

}  // namespace vggt
