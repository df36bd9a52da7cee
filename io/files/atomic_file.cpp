#include "io/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ostream>
#include <streambuf>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace vggt {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, int error) {
  throw std::system_error(error, std::generic_category(), path.string() + ": cannot be written");
}

// std::ofstream forgets why a write failed; this buffer keeps errno.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor), buffer_(1 << 20) { reset(); }
  int error() const { return error_; }

 protected:
  int sync() override {
    for (const char* at = pbase(); error_ == 0 && at < pptr();) {
      const ssize_t written = ::write(descriptor_, at, static_cast<std::size_t>(pptr() - at));
      if (written > 0) {
        at += written;
      } else if (written == 0 || errno != EINTR) {
        error_ = written == 0 ? ENOSPC : errno;
      }
    }
    reset();
    return error_ == 0 ? 0 : -1;
  }

  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

  pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override {
    if (sync() != 0) return pos_type(off_type(-1));
    const int whence = from == std::ios_base::beg   ? SEEK_SET
                       : from == std::ios_base::cur ? SEEK_CUR
                                                    : SEEK_END;
    return pos_type(::lseek(descriptor_, offset, whence));
  }

  pos_type seekpos(pos_type position, std::ios_base::openmode mode) override {
    return seekoff(off_type(position), std::ios_base::beg, mode);
  }

 private:
  void reset() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  int descriptor_;
  int error_ = 0;
  std::vector<char> buffer_;
};

// A file that goes unless it is published. It has no name until then, so that it goes with a killed process
// too, where the file system knows such files.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    descriptor_ = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (descriptor_ >= 0 && ::access(name_of_descriptor().c_str(), F_OK) == 0) return;
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));  // without /proc it would get no name
    do {
      descriptor_ = ::open(new_name().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) fail(target_, errno);
    is_named_ = true;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (is_named_) ::unlink(path_.c_str());
  }

  int descriptor() const { return descriptor_; }

  void publish() {
    if (::fsync(descriptor_) != 0) fail(target_, errno);
    while (!is_named_) {
      is_named_ = ::linkat(AT_FDCWD, name_of_descriptor().c_str(), AT_FDCWD, new_name().c_str(),
                           AT_SYMLINK_FOLLOW) == 0;
      if (!is_named_ && errno != EEXIST) fail(target_, errno);
    }
    if (::close(std::exchange(descriptor_, -1)) != 0) fail(target_, errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail(target_, errno);
    is_named_ = false;
  }

 private:
  std::string name_of_descriptor() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  /// Beside the target. It may exist: left by a killed run that had this process id.
  const fs::path& new_name() {
    static std::atomic<unsigned> counter{0};
    const std::string name = ".vggt-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    return path_ = target_.parent_path() / name;
  }

  fs::path target_, path_;
  int descriptor_ = -1;
  bool is_named_ = false;
};

// A rename would replace a device such as /dev/null by a file.
void check_target(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;  // making the temporary file then says what is wrong
  if (S_ISDIR(status.st_mode)) fail(path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail(path, EINVAL);
}

// The file that a symbolic link points to is replaced, not the link.
fs::path resolved(const fs::path& path) {
  std::error_code ignored;
  const fs::path real = fs::is_symlink(path, ignored) ? fs::canonical(path, ignored) : path;
  return ignored || real.empty() ? path : real;
}

}  // namespace

void write_atomically(const fs::path& path, const std::function<void(std::ostream&)>& body) {
  check_target(path);
  TemporaryFile file(resolved(path));
  DescriptorBuffer buffer(file.descriptor());
  std::ostream stream(&buffer);
  body(stream);
  stream.flush();
  if (buffer.error() != 0) fail(path, buffer.error());
  if (!stream) fail(path, EIO);
  file.publish();
}

}  // namespace vggt
