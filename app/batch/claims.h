#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "app/batch/file_lock.h"
#include "app/batch/owner.h"

namespace vggt {

class Claims;

/// A scene that this process works on and no other. The destructor gives it back.
class Claim {
 public:
  Claim(Claim&&) noexcept = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

  /// Whether another process has taken the scene over: this one stood still for too long. May be called often
  /// and from any thread.
  bool is_lost() const;

 private:
  friend class Claims;
  struct State;
  Claim(Claims* claims, std::shared_ptr<State> state) : claims_(claims), state_(std::move(state)) {}

  Claims* claims_;
  std::shared_ptr<State> state_;  // empty: moved from
};

/// Which scenes this process works on, told to others by a file for each: DIR/NAME, made in one piece, which
/// says whose it is and whose time is renewed while its owner lives. The file of a dead owner is taken over:
/// at once if it was a process of this machine, else when it was not renewed for long, by the clock of the
/// file system alone. All that under the folder's lock. On a file system without locks two processes that
/// find the same dead owner at the same moment may both take its scene, until the first one notices within a
/// heartbeat. Threads may use it at once.
class Claims {
 public:
  struct Times {
    std::chrono::milliseconds heartbeat{5000};
    // Attributes of files may be a minute old on NFS.
    std::chrono::milliseconds dead_after{150000};
  };

  Claims(std::filesystem::path folder, FileLock& lock, Times times);
  Claims(std::filesystem::path folder, FileLock& lock) : Claims(std::move(folder), lock, Times()) {}
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;
  /// After its claims. Removes the folder if it is empty.
  ~Claims();

  /// Nothing: a process that seems to live has it, this one included; holder() tells which. Throws
  /// std::system_error.
  std::optional<Claim> take(const std::string& name);
  /// Who has claimed the scene; nothing: nobody that seems to live. Changes nothing.
  std::optional<Owner> holder(const std::string& name) const;

 private:
  friend class Claim;
  using FileTime = std::chrono::nanoseconds;  // since 1970, by the file system's clock
  void renew_often();
  void renew(Claim::State& state) const;
  void give_back(const std::shared_ptr<Claim::State>& state) noexcept;
  bool make(const std::filesystem::path& path, FileTime& now) const;
  bool seems_alive(const std::filesystem::path& path, FileTime now, Owner& owner) const;
  void remove_dead(const std::filesystem::path& path, const Owner& owner) const;

  const std::filesystem::path folder_;
  FileLock& lock_;
  const Times times_;
  const Owner self_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable ends_;
  bool ended_ = false;
  std::map<std::string, std::shared_ptr<Claim::State>> held_;
  std::thread heartbeat_;
};

/// Claims::holder(), for whoever only looks on.
std::optional<Owner> claim_holder(const std::filesystem::path& folder, const std::string& name,
                                  std::chrono::milliseconds dead_after = Claims::Times().dead_after);

}  // namespace vggt
