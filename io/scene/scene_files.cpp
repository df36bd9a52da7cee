#include "io/scene/scene_files.h"

#include <Eigen/Geometry>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "io/files/byte_reader.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "PLY files are written little-endian");

json number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

template <int kSize>
json rows(const Eigen::Matrix<double, kSize, kSize>& matrix) {
  json result = json::array();
  for (int r = 0; r < kSize; ++r) {
    json& row = result.emplace_back(json::array());
    for (int c = 0; c < kSize; ++c) row.push_back(number(matrix(r, c)));
  }
  return result;
}

json to_json(const SceneCamera& camera) {
  return {{"file", camera.file},
          {"time_s", number(camera.time_s)},
          {"valid", camera.valid},
          {"original_size", {camera.original_width, camera.original_height}},
          {"network_size", {camera.network_width, camera.network_height}},
          {"k_original", rows<3>(camera.k_original)},
          {"k_network", rows<3>(camera.k_network)},
          {"cam_from_world", rows<4>(camera.cam_from_world)},
          {"mean_confidence", number(camera.mean_confidence)}};
}

// The shortest text that reads back as the same double.
std::string exact(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string tum_line(const SceneCamera& camera) {
  const Eigen::Matrix3d world_from_cam = camera.cam_from_world.topLeftCorner<3, 3>().transpose();
  const Eigen::Vector3d center = -(world_from_cam * camera.cam_from_world.topRightCorner<3, 1>());
  Eigen::Quaterniond q(world_from_cam);
  q.normalize();
  if (q.w() < 0) q.coeffs() = -q.coeffs();
  std::string line = exact(camera.time_s);
  for (const double value : {center.x(), center.y(), center.z(), q.x(), q.y(), q.z(), q.w()}) {
    line += ' ' + exact(value);
  }
  return line + '\n';
}

// One line's eight numbers, or a reason why it has none.
std::string parse_pose(std::string_view line, TumPose& pose) {
  std::array<double, 8> values{};
  std::istringstream words{std::string(line)};
  std::string word;
  for (double& value : values) {
    if (!(words >> word)) return "has fewer than 8 numbers";
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      return "'" + printable(word) + "' is not a number";
    if (!std::isfinite(value)) return "'" + printable(word) + "' is not finite";
  }
  if (words >> word) return "has more than 8 numbers";
  Eigen::Quaterniond q(values[7], values[4], values[5], values[6]);
  if (!(q.norm() > 0) || !std::isfinite(q.norm())) return "its quaternion cannot be normalised";
  pose.time_s = values[0];
  pose.world_from_cam.setIdentity();
  pose.world_from_cam.topLeftCorner<3, 3>() = q.normalized().toRotationMatrix();
  pose.world_from_cam.topRightCorner<3, 1>() << values[1], values[2], values[3];
  return {};
}

}  // namespace

Eigen::Matrix3d original_intrinsics(const Eigen::Matrix3d& k_network, const PixelMap& map) {
  Eigen::Matrix3d k = k_network;
  k.row(0) /= map.scale_x;
  k.row(1) /= map.scale_y;
  k(0, 2) = map.original_x(k_network(0, 2));
  k(1, 2) = map.original_y(k_network(1, 2));
  return k;
}

void write_ply(const fs::path& path, const PointCloud& cloud) {
  if (cloud.points.size() != cloud.colors.size()) {
    throw std::invalid_argument(path.string() + ": " + std::to_string(cloud.points.size()) + " points but " +
                                std::to_string(cloud.colors.size()) + " colors");
  }
  for (std::size_t i = 0; i < cloud.points.size(); ++i) {
    if (!cloud.points[i].allFinite()) {
      throw std::invalid_argument(path.string() + ": point " + std::to_string(i) + " is not finite");
    }
  }
  write_atomically(path, [&](std::ostream& out) {
    out << "ply\nformat binary_little_endian 1.0\nelement vertex " << cloud.points.size()
        << "\nproperty float x\nproperty float y\nproperty float z\n"
           "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
    std::array<char, 15> vertex;
    for (std::size_t i = 0; i < cloud.points.size(); ++i) {
      std::memcpy(vertex.data(), cloud.points[i].data(), 12);
      std::memcpy(vertex.data() + 12, cloud.colors[i].data(), 3);
      out.write(vertex.data(), vertex.size());
    }
  });
}

void write_cameras_json(const fs::path& path, const std::vector<SceneCamera>& cameras) {
  json list = json::array();
  for (const SceneCamera& camera : cameras) list.push_back(to_json(camera));
  // File names may be no UTF-8, which JSON has to be.
  const std::string text = json{{"cameras", list}}.dump(1, ' ', false, json::error_handler_t::replace);
  write_atomically(path, [&](std::ostream& out) { out << text << '\n'; });
}

void write_tum(const fs::path& path, const std::vector<SceneCamera>& cameras) {
  std::string text;
  for (const SceneCamera& camera : cameras) {
    if (!camera.valid) continue;
    if (!camera.cam_from_world.allFinite() || !std::isfinite(camera.time_s)) {
      throw std::invalid_argument(path.string() + ": the pose of " + camera.file + " is not finite");
    }
    text += tum_line(camera);
  }
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

std::vector<TumPose> read_tum(const fs::path& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                            path.string() + ": cannot be read");
  }
  std::vector<TumPose> poses;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string problem = parse_pose(line, poses.emplace_back());
    if (!problem.empty()) {
      throw std::invalid_argument(path.string() + ":" + std::to_string(number) + ": " + problem);
    }
  }
  if (file.bad()) throw std::system_error(EIO, std::generic_category(), path.string() + ": cannot be read");
  return poses;
}

}  // namespace vggt
