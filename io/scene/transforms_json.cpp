#include "io/scene/transforms_json.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "io/files/atomic_file.h"

namespace vggt {
namespace {

using nlohmann::json;

json intrinsics_of(const Camera& camera) {
  return {{"w", camera.width},
          {"h", camera.height},
          {"fl_x", camera.k(0, 0)},
          {"fl_y", camera.k(1, 1)},
          {"cx", camera.k(0, 2) + .5},
          {"cy", camera.k(1, 2) + .5},
          {"k1", camera.distortion[0]},
          {"k2", camera.distortion[1]},
          {"p1", 0.0},
          {"p2", 0.0}};
}

json pose_of(const Camera& camera) {
  Eigen::Matrix4d world_from_cam = camera.cam_from_world.inverse().matrix();
  world_from_cam.middleCols<2>(1) *= -1;
  json rows = json::array();
  for (int r = 0; r < 4; ++r) {
    json& row = rows.emplace_back(json::array());
    for (int c = 0; c < 4; ++c) row.push_back(world_from_cam(r, c));
  }
  return rows;
}

}  // namespace

void write_transforms_json(const std::filesystem::path& path, const std::vector<NerfFrame>& frames,
                           const std::string& ply) {
  json all = {{"camera_model", "OPENCV"}};
  bool shared = !frames.empty();
  for (const NerfFrame& frame : frames)
    shared = shared && intrinsics_of(frame.image.camera) == intrinsics_of(frames.front().image.camera);
  if (shared) all.update(intrinsics_of(frames.front().image.camera));
  if (!ply.empty()) all["ply_file_path"] = ply;
  json& list = all["frames"] = json::array();
  for (const NerfFrame& frame : frames) {
    json entry = {{"file_path", frame.image.file}, {"transform_matrix", pose_of(frame.image.camera)}};
    if (!shared) entry.update(intrinsics_of(frame.image.camera));
    if (!frame.depth_file.empty()) entry["depth_file_path"] = frame.depth_file;
    list.push_back(std::move(entry));
  }
  // File names may be no UTF-8, which JSON has to be.
  const std::string text = all.dump(1, ' ', false, json::error_handler_t::replace);
  write_atomically(path, [&](std::ostream& out) { out << text << '\n'; });
}

}  // namespace vggt
