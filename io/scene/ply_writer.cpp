#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/files/atomic_file.h"
#include "io/files/input_file.h"
#include "io/files/write_at.h"
#include "io/scene/ply.h"

namespace vggt {
namespace {

static_assert(std::endian::native == std::endian::little, "PLY files are written little-endian");

constexpr std::string_view kNormals = "property float nx\nproperty float ny\nproperty float nz\n";

std::size_t vertex_bytes(bool normals) {
  return normals ? 27 : 15;
}

std::string header_of(int64_t points, bool normals) {
  return "ply\nformat binary_little_endian 1.0\nelement vertex " + std::to_string(points) +
         "\nproperty float x\nproperty float y\nproperty float z\n" + std::string(normals ? kNormals : "") +
         "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
}

void check(const std::filesystem::path& path, const PointCloud& cloud, bool normals, int64_t first) {
  if (cloud.points.size() != cloud.colors.size()) {
    throw std::invalid_argument(path.string() + ": " + std::to_string(cloud.points.size()) + " points but " +
                                std::to_string(cloud.colors.size()) + " colors");
  }
  if (normals && cloud.points.size() != cloud.normals.size()) {
    throw std::invalid_argument(path.string() + ": " + std::to_string(cloud.points.size()) + " points but " +
                                std::to_string(cloud.normals.size()) + " normals");
  }
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    if (cloud.points[i].allFinite()) continue;
    throw std::invalid_argument(path.string() + ": point " + std::to_string(first + static_cast<int64_t>(i)) +
                                " is not finite");
  }
}

/// Points [first, first + count) as they stand in the file.
std::vector<char> vertices(const PointCloud& cloud, bool normals, std::size_t first, std::size_t count) {
  const std::size_t bytes = vertex_bytes(normals);
  std::vector<char> vertices(count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    char* at = &vertices[i * bytes];
    std::memcpy(at, cloud.points[first + i].data(), 12);
    if (normals) std::memcpy(at + 12, cloud.normals[first + i].data(), 12);
    std::memcpy(at + bytes - 3, cloud.colors[first + i].data(), 3);
  }
  return vertices;
}

}  // namespace

PlyWriter::PlyWriter(const std::filesystem::path& path, int64_t points, bool normals)
    : path_(path), points_(points), normals_(normals) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  const std::string header = header_of(points, normals);
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
  check(path_, part, normals_, first);
  const std::vector<char> bytes = vertices(part, normals_, 0, part.points.size());
  const uint64_t offset = header_bytes_ + vertex_bytes(normals_) * static_cast<uint64_t>(first);
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
  const bool normals = !cloud.normals.empty();
  check(path, cloud, normals, 0);
  write_atomically(path, [&](std::ostream& out) {
    out << header_of(static_cast<int64_t>(cloud.points.size()), normals);
    for (std::size_t first = 0; first < cloud.points.size(); first += kAtOnce) {
      const std::vector<char> bytes =
          vertices(cloud, normals, first, std::min(kAtOnce, cloud.points.size() - first));
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  });
}

PointCloud sample_ply(const std::filesystem::path& path, int64_t most) {
  constexpr std::string_view kEnd = "end_header\n";
  constexpr uint64_t kSeed = 1;
  constexpr uint64_t kMostHeader = 1024, kBlock = 65'536;  // bytes; points that are read at once
  const InputFile file(path);
  std::string text(std::min(file.size(), kMostHeader), 0);
  file.read(0, std::as_writable_bytes(std::span(text)));
  const std::size_t end = text.find(kEnd);
  const std::size_t header_bytes = end + kEnd.size();
  const bool normals = text.substr(0, end).find(kNormals) != text.npos;
  const std::size_t bytes = vertex_bytes(normals);
  const uint64_t points = end == text.npos ? 0 : (file.size() - header_bytes) / bytes;
  if (end == text.npos || text.substr(0, header_bytes) != header_of(static_cast<int64_t>(points), normals))
    throw std::invalid_argument(path.string() + ": not a PLY file as vggt-recon writes it");
  PointCloud cloud;
  const uint64_t taken = std::min(points, static_cast<uint64_t>(most));
  cloud.points.resize(taken);
  cloud.colors.resize(taken);
  std::mt19937_64 random(kSeed);
  std::vector<std::byte> block;  // not a mapping, whose pages would all count as this process's
  uint64_t block_first = 0, block_end = 0;
  for (uint64_t i = 0; i < taken; ++i) {
    const uint64_t first = i * points / taken, next = (i + 1) * points / taken;
    const uint64_t chosen = first + random() % (next - first);
    if (chosen >= block_end) {
      block_first = chosen;
      block_end = std::min(points, chosen + kBlock);
      block.resize((block_end - block_first) * bytes);
      file.read(header_bytes + block_first * bytes, block);
    }
    const std::byte* at = block.data() + (chosen - block_first) * bytes;
    std::memcpy(cloud.points[i].data(), at, 12);
    std::memcpy(cloud.colors[i].data(), at + bytes - 3, 3);
  }
  return cloud;
}

}  // namespace vggt
