#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "app/scene/for_each_frame.h"
#include "io/scene/camera.h"

namespace vggt {

/// Depths agree where they differ by at most this share of the one that is read off a map.
constexpr double kDepthTolerance = 0.01;

/// Reads the depth of a frame along its camera's axis, [H,W]; NaN where it is not known. Called from several
/// threads.
using ReadDepth = std::function<void(int frame, std::span<float> depth)>;

/// Counts how many other frames see a point at the depth where it is. Of each frame only its partners are
/// asked: frames that see much of the same from another place (a frame taken from the same place agrees with
/// whatever is wrong). The sizes of the maps are those of the cameras. Memory: a few depth maps for each
/// thread.
class DepthAgreement {
 public:
  /// Chooses at most `partners` for each frame. Frames whose camera is not valid have none and are none.
  /// cameras and read_depth must outlive it. Throws what `work` and read_depth throw.
  DepthAgreement(const std::vector<Camera>& cameras, int width, int height, const ReadDepth& read_depth,
                 int partners, const FrameWork& work);

  const std::vector<int>& partners(int frame) const { return partners_[static_cast<std::size_t>(frame)]; }

  /// For each of the points of a frame, in world coordinates, how many of its partners agree. `depth` is a
  /// buffer that calls may share. May be called from several threads.
  std::vector<uint8_t> agreeing(int frame, std::span<const Eigen::Vector3f> points,
                                std::vector<float>& depth) const;

 private:
  struct Sample;  // a point that a frame sees
  std::vector<Sample> samples_of(int frame, int side, std::vector<float>& depth) const;
  double overlap(const std::vector<Sample>& seen, int from, int to, const std::vector<Sample>& theirs,
                 int side) const;
  bool agrees(const Eigen::Vector3f& point, const Camera& camera, const std::vector<float>& depth) const;

  const std::vector<Camera>& cameras_;
  int width_, height_;
  const ReadDepth& read_depth_;
  std::vector<std::vector<int>> partners_;
};

}  // namespace vggt
