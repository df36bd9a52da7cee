#include "app/api/scene.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "app/run/outputs.h"
#include "io/files/atomic_file.h"
#include "io/files/staged_files.h"
#include "io/scene/cameras_json.h"
#include "io/scene/ply.h"
#include "io/scene/tum.h"

namespace vggt {
namespace {

template <int kSize>
void copy_rows(const Eigen::Matrix<double, kSize, kSize>& matrix, double* to) {
  for (int row = 0; row < kSize; ++row) {
    for (int column = 0; column < kSize; ++column) *to++ = matrix(row, column);
  }
}

vggt_recon_camera row_of(const FrameCamera& frame, const std::string& name, const std::string& model) {
  const Camera& camera = frame.camera;
  vggt_recon_camera row = {};
  row.name = name.c_str();
  row.model = model.c_str();
  row.time_s = frame.time_s.value_or(0);
  row.valid = camera.valid ? 1 : 0;
  row.width = camera.original_width;
  row.height = camera.original_height;
  row.network_width = camera.width;
  row.network_height = camera.height;
  copy_rows<3>(camera.k_original(), row.intrinsics);
  copy_rows<3>(camera.k, row.network_intrinsics);
  std::ranges::copy(camera.distortion, row.distortion);
  copy_rows<4>(camera.cam_from_world.matrix(), row.cam_from_world);
  row.mean_confidence = frame.mean_confidence;
  return row;
}

}  // namespace

Scene::Scene(Reconstruction result, bool has_points)
    : result_(std::move(result)), has_points_(has_points), report_(report_text(result_.report)) {
  for (const FrameCamera& frame : result_.cameras) {
    const std::string& name = texts_.emplace_back(frame.file);
    cameras_.push_back(row_of(frame, name, texts_.emplace_back(colmap_name(frame.camera.model))));
  }
  add_tracks();
  for (const WrittenFile& file : result_.written)
    written_.push_back(texts_.emplace_back(file.path.string()).c_str());
}

void Scene::add_tracks() {
  for (const Track& track : result_.tracks) {
    vggt_recon_track row = {};
    std::ranges::copy(track.point_in_world, row.point);
    std::ranges::copy(track.rgb, row.rgb);
    row.error = track.error_px;
    row.first_observation = static_cast<int64_t>(observations_.size());
    row.observation_count = static_cast<int64_t>(track.observations.size());
    tracks_.push_back(row);
    for (const Observation& seen : track.observations)
      observations_.push_back({seen.pixel.x(), seen.pixel.y(), seen.frame});
  }
}

void Scene::save(const std::string& out) const {
  const OutputPaths paths = plan_outputs(out, "", "");
  if (paths.names_cloud && !has_points_)
    throw std::invalid_argument("out: " + out +
                                " is to hold the cloud, whose points the scene was not asked to keep");
  StagedFiles files(paths.all());
  if (has_points_)
    files.write(*paths.cloud, [&](const auto& place) { write_ply(place, result_.arrays.cloud); });
  if (!result_.cameras.empty()) {
    files.write(*paths.cameras, [&](const auto& place) { write_cameras_json(place, result_.cameras); });
    files.write(*paths.trajectory, [&](const auto& place) { write_tum(place, result_.cameras); });
  }
  files.write(*paths.report, [&](const auto& place) { write_report(place, result_.report); });
  files.commit();
}

}  // namespace vggt
