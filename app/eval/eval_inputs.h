#pragma once
#include <Eigen/Core>
#include <functional>
#include <string>
#include <vector>

#include "io/scene/depth_files.h"
#include "io/scene/pose_files.h"

namespace vggt {

/// Something of one scene that is read when it is needed.
template <class T>
struct Source {
  std::string path;
  std::function<std::vector<T>()> load;
};

/// What the files of one side hold, each list scene by scene in the order of the files.
struct EvalSide {
  std::vector<Source<FramePose>> poses;
  std::vector<Source<DepthMap>> depth;
  std::vector<Source<Eigen::Vector3d>> clouds;
  bool poses_named = true;  // or only in order, as predictions hold them
};

/// Sorts files and folders by what they hold: cameras (TUM, COLMAP's images.txt or a folder with it,
/// transforms.json, .cameras.json), depth (a folder of 16-bit PNG, .npy and .pfm, or one such file; PNG in
/// multiples of `depth_unit`), clouds (PLY), depth and, where no
/// other file holds them, cameras (.safetensors).
/// Throws std::invalid_argument or std::system_error naming the path that cannot be read or is none of these.
EvalSide sort_inputs(const std::vector<std::string>& paths, double depth_unit);

}  // namespace vggt
