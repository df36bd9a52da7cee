#include "io/scene/kitti.h"

#include <ostream>
#include <string>

#include "io/files/atomic_file.h"
#include "io/files/numbers.h"

namespace vggt {

void write_kitti(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras) {
  std::string text;
  for (const FrameCamera& frame : cameras) {
    if (!frame.camera.valid) continue;
    const Eigen::Isometry3d world_from_cam = frame.camera.cam_from_world.inverse();
    for (int i = 0; i < 12; ++i) text += (i > 0 ? " " : "") + number_text(world_from_cam(i / 4, i % 4));
    text += '\n';
  }
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

}  // namespace vggt
