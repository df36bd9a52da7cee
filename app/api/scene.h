#pragma once
#include <deque>
#include <string>
#include <vector>

#include "app/api/vggt_recon.h"
#include "app/run/reconstruct.h"

namespace vggt {

/// A run's result as C reads it: rows of plain numbers, beside what they point to.
class Scene {
 public:
  Scene(Reconstruction result, bool has_points);
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  const std::vector<vggt_recon_camera>& cameras() const { return cameras_; }
  const std::vector<vggt_recon_track>& tracks() const { return tracks_; }
  const std::vector<vggt_recon_observation>& observations() const { return observations_; }
  const std::vector<const char*>& written() const { return written_; }
  const std::string& report() const { return report_; }
  const SceneArrays& arrays() const { return result_.arrays; }
  std::size_t frames() const { return result_.report.frames_used.size(); }

  /// Writes the scene's files as --out does, together or not at all. Throws std::invalid_argument and
  /// std::system_error.
  void save(const std::string& out) const;

 private:
  void add_tracks();

  const Reconstruction result_;
  const bool has_points_;
  const std::string report_;
  std::deque<std::string> texts_;  // that the rows point to
  std::vector<vggt_recon_camera> cameras_;
  std::vector<vggt_recon_track> tracks_;
  std::vector<vggt_recon_observation> observations_;
  std::vector<const char*> written_;
};

}  // namespace vggt
