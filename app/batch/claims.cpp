#include "app/batch/claims.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

namespace vggt {
namespace {

namespace fs = std::filesystem;
using FileTime = std::chrono::nanoseconds;

// In front of names that are no claims; a scene's name begins with no dot.
constexpr const char* kNew = ".new-";
constexpr const char* kDead = ".dead-";

[[noreturn]] void fail(const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be written");
}

FileTime time_of(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

/// A claim's file, opened: on NFS opening asks the server, where looking alone may tell what is a minute old.
class ClaimFile {
 public:
  explicit ClaimFile(const fs::path& path)  // a pipe of this name must not hold anybody up
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat status {};
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
      error_ = errno;
      return;
    }
    time_ = time_of(status);
    std::array<char, 4096> text{};
    const ssize_t size = ::pread(file_, text.data(), text.size(), 0);
    if (size > 0) owner_ = owner_of(std::string(text.data(), static_cast<std::size_t>(size)));
  }
  ClaimFile(const ClaimFile&) = delete;
  ClaimFile& operator=(const ClaimFile&) = delete;
  ~ClaimFile() {
    if (file_ >= 0) ::close(file_);
  }

  bool exists() const { return error_ != ENOENT; }
  bool readable() const { return error_ == 0; }
  FileTime time() const { return time_; }
  const std::optional<Owner>& owner() const { return owner_; }  // nothing: it was killed while writing it
  void renew() const { ::futimens(file_, nullptr); }

 private:
  int file_;
  int error_ = 0;
  FileTime time_{};
  std::optional<Owner> owner_;
};

bool write_new(const fs::path& path, const std::string& text, int flags) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = written ? 0 : errno != 0 ? errno : ENOSPC;
  ::close(file);
  if (written) return true;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

/// What killed processes of this machine left: halves of their turns, and claims of scenes that they had
/// finished.
void remove_orphans(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    const bool is_half = name.starts_with(kNew) || name.starts_with(kDead);
    const ClaimFile file(at->path());
    const bool is_dead = file.owner() && is_alive(*file.owner()) == false;
    if (is_half || is_dead) ::unlink(at->path().c_str());
  }
}

}  // namespace

struct Claim::State {
  std::string name;
  std::atomic<bool> lost = false;
  std::atomic<std::chrono::steady_clock::time_point> seen{};  // when it was last known to be ours
};

Claim::~Claim() {
  if (state_) claims_->give_back(state_);
}

bool Claim::is_lost() const {
  // A process that stood still looks itself, before its heartbeat comes round again.
  if (!state_->lost && std::chrono::steady_clock::now() - state_->seen.load() > 3 * claims_->times_.heartbeat)
    claims_->renew(*state_);
  return state_->lost;
}

Claims::Claims(fs::path folder, FileLock& lock, Times times)
    : folder_(std::move(folder)), lock_(lock), times_(times), self_(this_process()) {
  heartbeat_ = std::thread([this] { renew_often(); });
}

Claims::~Claims() {
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  heartbeat_.join();
  try {
    const FileLock::Turn turn(lock_);
    if (turn.among_processes()) remove_orphans(folder_);
    ::rmdir(folder_.c_str());
  } catch (...) {
    // The folder stays, which does no harm.
  }
}

void Claims::renew_often() {
  std::unique_lock guard(mutex_);
  while (!ends_.wait_for(guard, times_.heartbeat, [this] { return ended_; })) {
    std::vector<std::shared_ptr<Claim::State>> held;
    for (const auto& [name, state] : held_) held.push_back(state);
    guard.unlock();
    for (const auto& state : held) renew(*state);
    guard.lock();
  }
}

void Claims::renew(Claim::State& state) const {
  const ClaimFile file(folder_ / state.name);
  const bool is_ours = file.owner() && file.owner()->token == self_.token;
  if (is_ours) {
    file.renew();
    state.seen = std::chrono::steady_clock::now();
  } else if (!file.exists() || file.readable()) {
    const std::lock_guard guard(mutex_);
    // What was just given back is not lost.
    if (held_.contains(state.name)) state.lost = true;
  }
}

void Claims::give_back(const std::shared_ptr<Claim::State>& state) noexcept try {
  const FileLock::Turn turn(lock_);
  const fs::path path = folder_ / state->name;
  {
    const std::lock_guard guard(mutex_);
    held_.erase(state->name);
  }
  const ClaimFile file(path);
  if (file.owner() && file.owner()->token == self_.token) ::unlink(path.c_str());
} catch (...) {
  // It is this process's until that ends.
}

/// Makes the claim's file with all that is in it; false: there is one. Sets `now` by the file system's clock.
bool Claims::make(const fs::path& path, FileTime& now) const {
  const std::string text = to_text(self_);
  const fs::path draft = folder_ / (kNew + self_.token);
  if (!write_new(draft, text, O_TRUNC)) fail(path);
  const bool first = ::link(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  struct stat status {};
  const bool known = ::stat(draft.c_str(), &status) == 0;
  if (known) now = time_of(status);
  // Over NFS the answer may have been lost: then the repeated call finds the name taken, by this very file.
  const bool linked = first || (known && status.st_nlink > 1);
  ::unlink(draft.c_str());
  if (linked) return true;
  if (error == EEXIST) return false;
  // A file system without second names.
  if (write_new(path, text, O_EXCL)) return true;
  if (errno != EEXIST) fail(path);
  return false;
}

bool Claims::seems_alive(const fs::path& path, FileTime now, Owner& owner) const {
  const ClaimFile file(path);
  owner = file.owner().value_or(Owner());
  if (!file.exists()) return false;
  if (file.owner()) {
    if (const auto alive = is_alive(*file.owner())) return *alive;
  }
  return now - file.time() < times_.dead_after;
}

void Claims::remove_dead(const fs::path& path, const Owner& owner) const {
  const fs::path aside = folder_ / (kDead + self_.token);
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  const ClaimFile file(aside);
  // Without locks another process may have taken it over before: then it is put back.
  if (file.owner().value_or(Owner()) != owner) ::link(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
}

std::optional<Claim> Claims::take(const std::string& name) {
  const FileLock::Turn turn(lock_);
  const fs::path path = folder_ / name;
  {
    const std::lock_guard guard(mutex_);
    if (held_.contains(name)) return std::nullopt;
  }
  fs::create_directories(folder_);
  FileTime now{};
  constexpr int kTries = 3;  // without locks others come between
  for (int i = 0; i < kTries; ++i) {
    if (make(path, now)) {
      auto state = std::make_shared<Claim::State>();
      state->name = name;
      state->seen = std::chrono::steady_clock::now();
      const std::lock_guard guard(mutex_);
      held_[name] = state;
      return Claim(this, std::move(state));
    }
    Owner owner;
    if (seems_alive(path, now, owner)) return std::nullopt;
    remove_dead(path, owner);
  }
  return std::nullopt;
}

std::optional<Owner> Claims::holder(const std::string& name) const {
  return claim_holder(folder_, name, times_.dead_after);
}

std::optional<Owner> claim_holder(const fs::path& folder, const std::string& name,
                                  std::chrono::milliseconds dead_after) {
  const ClaimFile file(folder / name);
  if (!file.readable() || !file.owner()) return std::nullopt;
  if (const auto alive = is_alive(*file.owner())) return *alive ? file.owner() : std::nullopt;
  // Nothing is written here, so that the clock is this machine's.
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const FileTime age = std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) - file.time();
  return age < dead_after ? file.owner() : std::nullopt;
}

}  // namespace vggt
