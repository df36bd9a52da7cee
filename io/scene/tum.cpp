#include "io/scene/tum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <stdexcept>
#include <string>

#include "io/files/atomic_file.h"
#include "io/files/numbers.h"
#include "io/scene/text_lines.h"

namespace vggt {
namespace {

std::string tum_line(const FrameCamera& frame) {
  const Eigen::Isometry3d& cam_from_world = frame.camera.cam_from_world;
  const Eigen::Matrix3d world_from_cam = cam_from_world.linear().transpose();
  // Not Camera::center(), which adds in another order: the last digits of files would change.
  const Eigen::Vector3d center = -(world_from_cam * cam_from_world.translation());
  Eigen::Quaterniond q(world_from_cam);
  q.normalize();
  if (q.w() < 0) q.coeffs() = -q.coeffs();
  std::string line = number_text(*frame.time_s);
  for (const double value : {center.x(), center.y(), center.z(), q.x(), q.y(), q.z(), q.w()}) {
    line += ' ' + number_text(value);
  }
  return line + '\n';
}

FrameCamera parse_line(const std::vector<std::string_view>& words) {
  std::array<double, 8> values{};
  const std::size_t count = std::min(words.size(), values.size());
  for (std::size_t i = 0; i < count; ++i) values[i] = finite_number(words[i]);
  if (words.size() < values.size()) throw std::invalid_argument("has fewer than 8 numbers");
  if (words.size() > values.size()) throw std::invalid_argument("has more than 8 numbers");
  const Eigen::Matrix3d cam_from_world =
      unit_quaternion({values[7], values[4], values[5], values[6]}).toRotationMatrix().transpose();
  FrameCamera frame;
  frame.time_s = values[0];
  frame.camera.cam_from_world.linear() = cam_from_world;
  frame.camera.cam_from_world.translation() =
      -(cam_from_world * Eigen::Vector3d(values[1], values[2], values[3]));
  return frame;
}

}  // namespace

void write_tum(const std::filesystem::path& path, const std::vector<FrameCamera>& cameras) {
  std::string text;
  for (const FrameCamera& frame : cameras) {
    if (!frame.camera.valid) continue;
    if (!frame.camera.cam_from_world.matrix().allFinite() || !frame.time_s || !std::isfinite(*frame.time_s)) {
      throw std::invalid_argument(path.string() + ": the pose of " + frame.file +
                                  " is not finite, or has no time");
    }
    text += tum_line(frame);
  }
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

std::vector<FrameCamera> read_tum(const std::filesystem::path& path) {
  std::vector<FrameCamera> frames;
  each_line(path, [&](std::string_view line) {
    const std::vector<std::string_view> words = words_of(line.substr(0, line.find('#')));
    if (!words.empty()) frames.push_back(parse_line(words));
  });
  return frames;
}

}  // namespace vggt
