#pragma once
#include <filesystem>
#include <mutex>

namespace vggt {

/// A file by which the processes and threads that work on one folder take turns, for moments. The kernel
/// lets go of what a killed process held. Where the file system knows no locks (some cluster file systems
/// without them switched on) only the threads of this process take turns.
class FileLock {
 public:
  /// Makes the file if it is not there; it stays. Throws std::system_error.
  explicit FileLock(const std::filesystem::path& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  /// Held until its end of life. Blocks.
  class Turn {
   public:
    explicit Turn(FileLock& lock);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    /// Whether other processes wait too.
    bool among_processes() const { return locked_; }

   private:
    std::unique_lock<std::mutex> threads_;
    int file_;
    bool locked_;
  };

 private:
  std::mutex threads_;
  int file_ = -1;
};

}  // namespace vggt
