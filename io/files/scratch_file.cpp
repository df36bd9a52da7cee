#include "io/files/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <system_error>

#include "io/files/write_at.h"

namespace vggt {
namespace {

constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // Linux moves at most 2 GiB a call

std::mutex counting;
int64_t held = 0, most_held = 0;  // of all ScratchBytes

}  // namespace

void ScratchBytes::set(int64_t bytes) {
  held += bytes - bytes_;
  bytes_ = bytes;
  most_held = std::max(most_held, held);
}

void ScratchBytes::hold(int64_t bytes) {
  const std::lock_guard lock(counting);
  set(bytes);
}

void ScratchBytes::hold_at_least(int64_t bytes) {
  const std::lock_guard lock(counting);
  set(std::max(bytes, bytes_));
}

int64_t peak_scratch_bytes() {
  const std::lock_guard lock(counting);
  return most_held;
}

void begin_peak_scratch_bytes() {
  const std::lock_guard lock(counting);
  if (held == 0) most_held = 0;
}

ScratchFile::ScratchFile(const std::filesystem::path& path, int64_t bytes) : path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file_ < 0) fail(errno, "cannot be created");
  const int error = bytes > 0 ? ::posix_fallocate(file_, 0, bytes) : 0;
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL) {
    bytes_.hold(bytes);
    return;
  }
  ::close(file_);
  ::unlink(path.c_str());
  fail(error, "cannot reserve its bytes");
}

ScratchFile::~ScratchFile() {
  ::close(file_);
  if (!kept_) ::unlink(path_.c_str());
}

void ScratchFile::fail(int error, const char* what) const {
  throw std::system_error(error, std::generic_category(), path_.string() + ": " + what);
}

void ScratchFile::read(int64_t offset, void* to, int64_t bytes) const {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count =
        ::pread(file_, static_cast<char*>(to) + done, std::min(bytes - done, kMostAtOnce), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno, "cannot be read");
    if (count == 0) fail(EIO, "has been cut off");
    done += count;
  }
}

void ScratchFile::write(int64_t offset, const void* from, int64_t bytes) {
  const auto* data = static_cast<const std::byte*>(from);
  const int error = write_at(file_, static_cast<uint64_t>(offset), {data, static_cast<std::size_t>(bytes)});
  if (error != 0) fail(error, "cannot be written");
  bytes_.hold_at_least(offset + bytes);
}

void ScratchFile::sync() {
  if (::fsync(file_) != 0) fail(errno, "cannot be written");
}

}  // namespace vggt
