#include "io/files/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace vggt {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be read");
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: without it, opening a pipe waits until somebody writes to it.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  // Sockets and terminals cannot be opened, and are no files.
  if (descriptor_ < 0 && errno == ENXIO && ::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw std::invalid_argument(path_.string() + ": not a file");
  if (descriptor_ < 0) fail(path_);
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw std::invalid_argument(path_.string() + ": not a file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_);
    if (count == 0) throw std::invalid_argument(path_.string() + ": it became shorter while it was read");
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

std::string head_of(const InputFile& file, uint64_t most) {
  std::string head(std::min(file.size(), most), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

FileMapping::FileMapping(const InputFile& file) {
  if (file.size() == 0) return;
  void* address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (address == MAP_FAILED) fail(file.path());
  ::madvise(address, file.size(), MADV_RANDOM);  // headers are scattered: reading ahead would read everything
  bytes_ = {static_cast<const std::byte*>(address), file.size()};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace vggt
