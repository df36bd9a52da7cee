#include "io/scene/pose_files.h"

#include <Eigen/Geometry>
#include <Eigen/SVD>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>
#include <string_view>

#include "io/files/byte_reader.h"
#include "io/files/input_file.h"
#include "io/scene/scene_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string_view>;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

std::string text_of(const fs::path& path) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
  const InputFile file(path);
  if (file.size() > kMaxBytes) fail(path.string() + ": larger than 1 GiB, no list of cameras");
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Words words_of(std::string_view line) {
  Words words;
  for (std::string_view word; !(word = next_word(line)).empty();) words.push_back(word);
  return words;
}

/// Calls take(words) for every line that is not blank and no comment; errors get path and line.
void each_line(const fs::path& path, const std::function<void(const Words&)>& take) {
  const std::string text = text_of(path);
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Words words = words_of(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (words.empty() || words.front().starts_with('#')) continue;
    try {
      take(words);
    } catch (const std::invalid_argument& error) {
      fail(path.string() + ":" + std::to_string(number) + ": " + error.what());
    }
  }
}

std::optional<double> parse_number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

double finite_number(std::string_view word) {
  const std::optional<double> value = parse_number(word);
  if (!value) fail("'" + printable(word) + "' is not a number");
  if (!std::isfinite(*value)) fail("'" + printable(word) + "' is not finite");
  return *value;
}

double fov(double width, double focal) {
  if (!(width > 0) || !(focal > 0)) fail("a camera's width and focal length must be positive");
  return 2 * std::atan(width / (2 * focal));
}

/// Lines "ID MODEL WIDTH HEIGHT f ...": every model's first parameter is the (horizontal) focal length.
std::map<std::string, double, std::less<>> colmap_fields_of_view(const fs::path& path) {
  std::map<std::string, double, std::less<>> fields;
  each_line(path, [&](const Words& words) {
    if (words.size() < 5) fail("has fewer than 5 fields: CAMERA_ID MODEL WIDTH HEIGHT PARAMS");
    fields[std::string(words[0])] = fov(finite_number(words[2]), finite_number(words[4]));
  });
  return fields;
}

/// A line of observations: triples of numbers.
bool is_observations(const Words& words) {
  if (words.size() % 3 != 0) return false;
  for (const std::string_view word : words) {
    if (!parse_number(word)) return false;
  }
  return true;
}

FramePose colmap_pose(const Words& words) {
  if (words.size() < 10) fail("has fewer than 10 fields: IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME");
  const auto value = [&](std::size_t i) { return finite_number(words[i]); };
  const Eigen::Quaterniond q(value(1), value(2), value(3), value(4));
  if (!(q.norm() > 0) || !std::isfinite(q.norm())) fail("its quaternion cannot be normalised");
  FramePose pose;
  const char* name_end = words.back().data() + words.back().size();
  pose.file = std::string(words[9].data(), name_end);  // names may hold spaces
  const Eigen::Matrix3d world_from_cam = q.normalized().toRotationMatrix().transpose();
  pose.world_from_cam.topLeftCorner<3, 3>() = world_from_cam;
  pose.world_from_cam.topRightCorner<3, 1>() =
      -(world_from_cam * Eigen::Vector3d(value(5), value(6), value(7)));
  return pose;
}

Eigen::Matrix4d matrix_of(const json& rows) {
  Eigen::Matrix4d matrix = Eigen::Matrix4d::Identity();
  if (!rows.is_array() || (rows.size() != 3 && rows.size() != 4)) fail("a matrix is not 3×4 or 4×4");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].is_array() || rows[r].size() != 4) fail("a matrix is not 3×4 or 4×4");
    for (std::size_t c = 0; c < 4; ++c) {
      if (!rows[r][c].is_number()) fail("a matrix holds something that is no number");
      matrix(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = rows[r][c].get<double>();
    }
  }
  return matrix;
}

template <class T>
T field(const json& entry, const char* name) try {
  return entry.at(name).get<T>();
} catch (const json::exception&) {
  fail(std::string("`") + name + "` is missing or of another type");
}

FramePose our_camera(const json& entry) {
  FramePose pose;
  pose.file = field<std::string>(entry, "file");
  if (entry.contains("time_s") && entry["time_s"].is_number()) pose.time_s = entry["time_s"].get<double>();
  pose.valid = entry.value("valid", true);
  if (!pose.valid) return pose;
  pose.world_from_cam = Eigen::Isometry3d(rigid(matrix_of(entry.at("cam_from_world")))).inverse().matrix();
  if (entry.contains("k_original") && entry.contains("original_size")) {
    pose.fov_x_rad =
        fov(entry["original_size"].at(0).get<double>(), entry["k_original"].at(0).at(0).get<double>());
  }
  return pose;
}

std::optional<double> nerf_fov(const json& entry, const json& all) {
  for (const json* place : {&entry, &all}) {
    if (place->contains("camera_angle_x")) {
      const auto angle = field<double>(*place, "camera_angle_x");
      if (!(angle > 0 && angle < std::numbers::pi))
        throw std::invalid_argument("camera_angle_x: expected radians between 0 and pi");
      return angle;
    }
    if (place->contains("fl_x")) {
      const json& with_width = place->contains("w") ? *place : all;
      if (with_width.contains("w")) return fov(field<double>(with_width, "w"), field<double>(*place, "fl_x"));
    }
  }
  return std::nullopt;
}

FramePose nerf_frame(const json& entry, const json& all) {
  FramePose pose;
  pose.file = field<std::string>(entry, "file_path");
  const Eigen::Vector4d opengl_from_opencv(1, -1, -1, 1);
  pose.world_from_cam = rigid(matrix_of(entry.at("transform_matrix"))) * opengl_from_opencv.asDiagonal();
  pose.fov_x_rad = nerf_fov(entry, all);
  return pose;
}

std::vector<FramePose> poses_of(const json& all) {
  const bool ours = all.is_object() && all.contains("cameras");
  const char* key = ours ? "cameras" : "frames";
  if (!all.is_object() || !all.contains(key) || !all[key].is_array()) {
    fail("has neither `cameras` (.cameras.json) nor `frames` (transforms.json)");
  }
  std::vector<FramePose> poses;
  for (const json& entry : all[key]) {
    try {
      poses.push_back(ours ? our_camera(entry) : nerf_frame(entry, all));
    } catch (const json::exception& error) {
      fail(std::string(key) + "[" + std::to_string(poses.size()) + "]: " + printable(error.what()));
    } catch (const std::invalid_argument& error) {
      fail(std::string(key) + "[" + std::to_string(poses.size()) + "]: " + error.what());
    }
  }
  return poses;
}

}  // namespace

Eigen::Matrix4d rigid(const Eigen::Matrix4d& matrix) {
  if (!matrix.allFinite()) fail("a pose is not finite");
  const Eigen::Matrix3d turn = matrix.topLeftCorner<3, 3>();
  const double off = (turn.transpose() * turn - Eigen::Matrix3d::Identity()).cwiseAbs().maxCoeff();
  if (!(off < 0.01) || turn.determinant() < 0) fail("a pose is no rotation and translation");
  const Eigen::JacobiSVD<Eigen::Matrix3d> svd(turn, Eigen::ComputeFullU | Eigen::ComputeFullV);
  Eigen::Matrix4d result = Eigen::Matrix4d::Identity();
  result.topLeftCorner<3, 3>() = svd.matrixU() * svd.matrixV().transpose();
  result.topRightCorner<3, 1>() = matrix.topRightCorner<3, 1>();
  return result;
}

std::vector<FramePose> read_colmap_images(const fs::path& path) {
  const fs::path beside = path.parent_path() / "cameras.txt";
  const auto fields =
      fs::exists(beside) ? colmap_fields_of_view(beside) : std::map<std::string, double, std::less<>>();
  std::vector<FramePose> poses;
  bool after_image = false;
  each_line(path, [&](const Words& words) {
    // An image without observations has a blank line, or none where somebody left them all out.
    if (std::exchange(after_image, false) && is_observations(words)) return;
    poses.push_back(colmap_pose(words));
    if (const auto found = fields.find(words[8]); found != fields.end())
      poses.back().fov_x_rad = found->second;
    after_image = true;
  });
  return poses;
}

std::vector<FramePose> read_pose_json(const fs::path& path) {
  const std::string text = text_of(path);
  try {
    return poses_of(json::parse(text));
  } catch (const json::exception& error) {
    fail(path.string() + ": not valid JSON: " + printable(error.what()));
  } catch (const std::invalid_argument& error) {
    fail(path.string() + ": " + error.what());
  }
}

std::vector<FramePose> read_tum_poses(const fs::path& path) {
  std::vector<FramePose> poses;
  for (const TumPose& line : read_tum(path)) {
    FramePose& pose = poses.emplace_back();
    pose.time_s = line.time_s;
    pose.world_from_cam = line.world_from_cam;
  }
  return poses;
}

}  // namespace vggt
