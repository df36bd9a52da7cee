#include "io/scene/cameras_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/files/atomic_file.h"
#include "io/files/text.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

/// What the library says is wrong, without its name of the exception: "[json.exception.type_error.302] ...".
std::string reason(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return printable(text.substr(end == text.npos ? 0 : end + 2));
}

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

json to_json(const FrameCamera& frame) {
  const Camera& camera = frame.camera;
  json result = {{"file", frame.file},
                 {"time_s", frame.time_s ? number(*frame.time_s) : json()},
                 {"valid", camera.valid},
                 {"original_size", {camera.original_width, camera.original_height}},
                 {"network_size", {camera.width, camera.height}},
                 {"model", colmap_name(camera.model)},
                 {"k_original", rows<3>(camera.k_original())},
                 {"k_network", rows<3>(camera.k)},
                 {"distortion", {number(camera.distortion[0]), number(camera.distortion[1])}},
                 {"cam_from_world", rows<4>(camera.cam_from_world.matrix())},
                 {"mean_confidence", number(frame.mean_confidence)}};
  if (frame.quarter_turns != 0) result["quarter_turns"] = frame.quarter_turns;
  return result;
}

/// A 4×4 matrix, or its upper rows.
Eigen::Matrix4d pose_matrix(const json& rows) {
  Eigen::Matrix4d matrix = Eigen::Matrix4d::Identity();
  if (!rows.is_array() || (rows.size() != 3 && rows.size() != 4)) fail("a matrix is not 3×4 or 4×4");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].is_array() || rows[r].size() != 4) fail("a matrix is not 3×4 or 4×4");
    for (std::size_t c = 0; c < 4; ++c) {
      if (!rows[r][c].is_number()) fail("a matrix holds something that is no number");
      matrix(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = rows[r][c].get<double>();
    }
  }
  constexpr double kRounding = 1e-6;
  if (!((matrix.row(3) - Eigen::RowVector4d(0, 0, 0, 1)).norm() < kRounding))
    fail("the last row of a 4×4 matrix is not 0, 0, 0, 1");
  return matrix;
}

template <class T>
T field(const json& entry, const char* name) try {
  return entry.at(name).get<T>();
} catch (const json::exception&) {
  fail(std::string("`") + name + "` is missing or of another type");
}

/// The number of this name in a frame's entry, else in the whole list's; else `otherwise`.
double shared_number(const json& entry, const json& all, const char* name, double otherwise) {
  if (entry.contains(name)) return field<double>(entry, name);
  return all.contains(name) ? field<double>(all, name) : otherwise;
}

/// Files of before have neither `model` nor `distortion`.
void set_own_lens(Camera& camera, const json& entry, LensReading lenses) {
  const json &rows = entry["k_original"], &size = entry["original_size"];
  const auto is_row = [](const json& row, std::size_t numbers) {
    return row.is_array() && row.size() == numbers && std::ranges::all_of(row, &json::is_number);
  };
  if (!rows.is_array() || rows.size() != 3 ||
      !std::ranges::all_of(rows, [&](const json& row) { return is_row(row, 3); }))
    fail("`k_original` is no matrix of 3×3 numbers");
  if (!is_row(size, 2)) fail("`original_size` is not [width, height]");
  Eigen::Matrix3d k;
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 3; ++c)
      k(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = rows.at(r).at(c).get<double>();
  }
  constexpr double kRounding = 1e-9;
  LensNumbers lens{size.at(0).get<double>(), size.at(1).get<double>(), k(0, 0), k(1, 1)};
  const double more = std::max(
      {std::abs(k(0, 1)), std::abs(k(1, 0)), std::abs(k(2, 0)), std::abs(k(2, 1)), std::abs(k(2, 2) - 1)});
  if (!(more <= kRounding * std::max(1.0, k(0, 0)))) lens.beyond = "skew or more";
  if (entry.contains("distortion")) {
    const json& distortion = entry["distortion"];
    if (!is_row(distortion, 2)) fail("`distortion` is not [k1, k2]");
    lens.k1 = distortion.at(0).get<double>();
    lens.k2 = distortion.at(1).get<double>();
  }
  if (entry.contains("model")) {
    const auto name = field<std::string>(entry, "model");
    lens.model = camera_model_named(name);
    if (!lens.model) fail("`model` is '" + printable(name) + "', which is none that is known");
  }
  set_lens(camera, lens, lenses);
  camera.k.topRows<2>() = k.topRows<2>();
  camera.k(0, 1) = camera.k(1, 0) = 0;
}

/// A camera as write_cameras_json() writes it.
FrameCamera our_camera(const json& entry, LensReading lenses) {
  FrameCamera frame;
  Camera& camera = frame.camera;
  frame.file = field<std::string>(entry, "file");
  if (entry.contains("time_s") && entry["time_s"].is_number()) frame.time_s = entry["time_s"].get<double>();
  camera.valid = entry.value("valid", true);
  if (entry.contains("quarter_turns")) {
    const auto turns = field<int64_t>(entry, "quarter_turns");
    if (turns < 0 || turns > 3) fail("`quarter_turns` is none of 0 to 3");
    frame.quarter_turns = static_cast<int>(turns);
  }
  if (!camera.valid) return frame;
  camera.cam_from_world = nearest_pose(pose_matrix(entry.at("cam_from_world")));
  if (!entry.contains("k_original") || !entry.contains("original_size")) return frame;
  set_own_lens(camera, entry, lenses);
  camera.original_width = camera.width;
  camera.original_height = camera.height;
  return frame;
}

/// The model of a transforms.json's lens if it is another one than these numbers are of; else empty.
std::string other_model(const json& entry, const json& all) {
  const json& fisheye = entry.contains("is_fisheye") ? entry : all;
  if (fisheye.contains("is_fisheye") && fisheye["is_fisheye"] == true) return "`is_fisheye`";
  const json& named = entry.contains("camera_model") ? entry : all;
  if (named.contains("camera_model")) {
    const auto model = field<std::string>(named, "camera_model");
    const std::vector<std::string> known = {"OPENCV", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL"};
    if (std::ranges::find(known, model) == known.end())
      return "the model '" + printable(model.substr(0, 40)) + "'";
  }
  return {};
}

/// Gives `lens`, which has size and focal lengths, the rest of what a transforms.json tells.
void complete_nerf_lens(LensNumbers& lens, const json& entry, const json& all, LensReading lenses) {
  const auto number = [&](const char* name, double otherwise) {
    return shared_number(entry, all, name, otherwise);
  };
  const bool has_width = number("w", 0) > 0;
  for (const auto& [name, known, value] :
       {std::tuple("cx", has_width, &lens.cx), {"cy", has_width && number("h", 0) > 0, &lens.cy}}) {
    if (!entry.contains(name) && !all.contains(name)) continue;
    if (known) {
      *value = number(name, 0);
    } else if (lenses == LensReading::whole) {
      fail(std::string("`") + name + "` is given without " + (has_width ? "`h`" : "`w`"));
    }
  }
  lens.beyond = other_model(entry, all);
  if (!lens.beyond.empty()) return;  // its k1 and k2 are others
  lens.k1 = number("k1", 0);
  lens.k2 = number("k2", 0);
  for (const char* name : {"p1", "p2", "k3", "k4"}) {
    if (lens.beyond.empty() && number(name, 0) != 0) lens.beyond = name;
  }
}

void set_nerf_intrinsics(Camera& camera, const json& entry, const json& all, LensReading lenses) {
  const double width = shared_number(entry, all, "w", 0), height = shared_number(entry, all, "h", 0);
  const bool has_width = entry.contains("w") || all.contains("w");
  LensNumbers lens{width, height};
  for (const json* at : {&entry, &all}) {
    if (at->contains("fl_x") && has_width) {
      lens.fx = shared_number(entry, all, "fl_x", 0);
      lens.fy = shared_number(entry, all, "fl_y", lens.fx);
    } else if (at->contains("camera_angle_x")) {
      const auto angle = field<double>(*at, "camera_angle_x");
      if (!(angle > 0 && angle < std::numbers::pi)) fail("camera_angle_x: expected radians between 0 and pi");
      if (!(width > 0)) lens.width = 1, lens.height = 0;
      lens.fx = lens.fy = lens.width / (2 * std::tan(angle / 2));
    } else {
      continue;
    }
    complete_nerf_lens(lens, entry, all, lenses);
    return set_lens(camera, lens, lenses);
  }
}

/// A frame of a transforms.json.
FrameCamera nerf_frame(const json& entry, const json& all, LensReading lenses) {
  FrameCamera frame;
  frame.file = field<std::string>(entry, "file_path");
  frame.as_stored = true;
  const Eigen::Vector3d opengl_from_opencv(1, -1, -1);
  // Where lenses are wanted poses may be missing.
  const bool has_pose = lenses == LensReading::as_far_as_known || entry.contains("transform_matrix");
  Eigen::Isometry3d world_from_cam = Eigen::Isometry3d::Identity();
  if (has_pose) world_from_cam = nearest_pose(pose_matrix(field<json>(entry, "transform_matrix")));
  world_from_cam.linear() = world_from_cam.linear() * opengl_from_opencv.asDiagonal();
  frame.camera.cam_from_world = world_from_cam.inverse();
  set_nerf_intrinsics(frame.camera, entry, all, lenses);
  return frame;
}

std::vector<FrameCamera> frames_of(const json& all, LensReading lenses) {
  const bool ours = all.is_object() && all.contains("cameras");
  const char* key = ours ? "cameras" : "frames";
  if (!all.is_object() || !all.contains(key) || !all[key].is_array()) {
    fail("has neither `cameras` (.cameras.json) nor `frames` (transforms.json)");
  }
  std::vector<FrameCamera> frames;
  for (const json& entry : all[key]) {
    const std::string where = std::string(key) + "[" + std::to_string(frames.size()) + "]: ";
    try {
      frames.push_back(ours ? our_camera(entry, lenses) : nerf_frame(entry, all, lenses));
    } catch (const json::exception& error) {
      fail(where + reason(error));
    } catch (const std::invalid_argument& error) {
      fail(where + error.what());
    }
  }
  return frames;
}

}  // namespace

void write_cameras_json(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras) {
  json list = json::array();
  for (const FrameCamera& camera : cameras) list.push_back(to_json(camera));
  // File names may be no UTF-8, which JSON has to be.
  const std::string text = json{{"cameras", list}}.dump(1, ' ', false, json::error_handler_t::replace);
  write_atomically(path, [&](std::ostream& out) { out << text << '\n'; });
}

std::vector<FrameCamera> read_cameras_json(const std::filesystem::path& path, LensReading lenses) {
  const std::string text = read_text_file(path, uint64_t{1} << 30, "a list of cameras");
  try {
    return frames_of(json::parse(text), lenses);
  } catch (const json::exception& error) {
    fail(path.string() + ": not valid JSON: " + reason(error));
  } catch (const std::invalid_argument& error) {
    fail(path.string() + ": " + error.what());
  }
}

}  // namespace vggt
