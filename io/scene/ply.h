#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/scene/point_cloud.h"

namespace vggt {

/// A binary little-endian PLY, x y z (nx ny nz) float, red green blue uchar, whose points are written in
/// parts, in any order and from several threads. Unless it is closed, the file is removed.
class PlyWriter {
 public:
  /// Throws std::system_error, as all members do, naming the path.
  PlyWriter(const std::filesystem::path& path, int64_t points, bool normals = false);
  ~PlyWriter();
  PlyWriter(const PlyWriter&) = delete;
  PlyWriter& operator=(const PlyWriter&) = delete;

  /// Writes the points from number `first` on. Throws std::invalid_argument naming the path if a point is not
  /// finite or if colours (or normals, where they are wanted) and points differ in number, std::logic_error
  /// beyond the last point.
  void write(int64_t first, const PointCloud& part);
  /// Throws std::logic_error if points are missing.
  void close();

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int64_t points_;
  bool normals_;
  uint64_t header_bytes_ = 0;
  std::atomic<int64_t> written_ = 0;
  int descriptor_ = -1;
};

/// The whole cloud in such a file, with its normals where it has them, which appears complete or not at all.
/// Throws as PlyWriter.
void write_ply(const std::filesystem::path& path, const PointCloud& cloud);
/// At most `most` points of a file that PlyWriter or write_ply() wrote, with their colours, spread evenly
/// over it: one at random of each of `most` equal parts. Throws as read_ply_points().
PointCloud sample_ply(const std::filesystem::path& path, int64_t most);
/// The vertices of a PLY file, ASCII or binary; other properties and elements are passed over.
/// Throws std::invalid_argument naming the path: no PLY, no x y z, a point that is not finite, a file that
/// ends too early; std::system_error if it cannot be read.
std::vector<Eigen::Vector3d> read_ply_points(const std::filesystem::path& path);

}  // namespace vggt
