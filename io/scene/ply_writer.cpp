#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "io/files/atomic_file.h"
#include "io/files/write_at.h"
#include "io/scene/ply.h"

namespace vggt {
namespace {

static_assert(std::endian::native == std::endian::little, "PLY files are written little-endian");

constexpr std::size_t kVertexBytes = 15;

std::string header_of(int64_t points) {
  return "ply\nformat binary_little_endian 1.0\nelement vertex " + std::to_string(points) +
         "\nproperty float x\nproperty float y\nproperty float z\n"
         "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
}

void check(const std::filesystem::path& path, const PointCloud& cloud, int64_t first) {
  if (cloud.points.size() != cloud.colors.size()) {
    throw std::invalid_argument(path.string() + ": " + std::to_string(cloud.points.size()) + " points but " +
                                std::to_string(cloud.colors.size()) + " colors");
  }
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    if (cloud.points[i].allFinite()) continue;
    throw std::invalid_argument(path.string() + ": point " + std::to_string(first + static_cast<int64_t>(i)) +
                                " is not finite");
  }
}

/// Points [first, first + count) as they stand in the file.
std::vector<char> vertices(const PointCloud& cloud, std::size_t first, std::size_t count) {
  std::vector<char> bytes(count * kVertexBytes);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&bytes[i * kVertexBytes], cloud.points[first + i].data(), 12);
    std::memcpy(&bytes[i * kVertexBytes + 12], cloud.colors[first + i].data(), 3);
  }
  return bytes;
}

}  // namespace

PlyWriter::PlyWriter(const std::filesystem::path& path, int64_t points) : path_(path), points_(points) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  const std::string header = header_of(points);
  header_bytes_ = header.size();
  const int error = write_at(descriptor_, 0, std::as_bytes(std::span(header)));
  if (error == 0) return;
  ::close(descriptor_);
  ::unlink(path.c_str());
  fail(error);
}

PlyWriter::~PlyWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void PlyWriter::write(int64_t first, const PointCloud& part) {
  const auto count = static_cast<int64_t>(part.points.size());
  if (first < 0 || first + count > points_)
    throw std::logic_error(path_.string() + ": more points than announced");
  check(path_, part, first);
  const std::vector<char> bytes = vertices(part, 0, part.points.size());
  const uint64_t offset = header_bytes_ + kVertexBytes * static_cast<uint64_t>(first);
  if (const int error = write_at(descriptor_, offset, std::as_bytes(std::span(bytes)))) fail(error);
  written_ += count;
}

void PlyWriter::close() {
  if (written_ != points_) throw std::logic_error(path_.string() + ": fewer points than announced");
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) == 0) return;
  const int error = errno;
  ::unlink(path_.c_str());
  fail(error);
}

void PlyWriter::fail(int error) const {
  throw std::system_error(error, std::generic_category(), path_.string() + ": cannot be written");
}

void write_ply(const std::filesystem::path& path, const PointCloud& cloud) {
  constexpr std::size_t kAtOnce = 1 << 16;
  check(path, cloud, 0);
  write_atomically(path, [&](std::ostream& out) {
    out << header_of(static_cast<int64_t>(cloud.points.size()));
    for (std::size_t first = 0; first < cloud.points.size(); first += kAtOnce) {
      const std::vector<char> bytes = vertices(cloud, first, std::min(kAtOnce, cloud.points.size() - first));
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  });
}

}  // namespace vggt
