#pragma once
#include <Eigen/Core>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/scene/camera.h"
#include "io/scene/depth_files.h"

namespace vggt {

/// Cameras, depth maps or points of one scene, which are read when they are needed.
template <class T>
struct Source {
  std::string path;
  std::function<std::vector<T>()> load;
};

/// What the files of one side hold. Each list has an entry for each scene, in the order of the files.
struct EvalSide {
  std::vector<Source<FrameCamera>> cameras;
  std::vector<Source<DepthMap>> depth;
  std::vector<Source<Eigen::Vector3d>> clouds;
  bool cameras_named = true;  // false: they are known by their order only, as in predictions
};

/// Sorts files and folders by what they hold: cameras (TUM, COLMAP's images.txt or .bin or a folder with it,
/// transforms.json, .cameras.json), depth (a folder of 16-bit PNG, .npy and .pfm, or one such file; PNG in
/// multiples of `depth_unit`, else of what the maps.json of our export beside them says, else of .001),
/// clouds (PLY), and predictions (.safetensors), whose cameras count only where no other file holds any.
/// Throws std::invalid_argument or std::system_error naming the path that cannot be read or is none of these.
EvalSide sort_inputs(const std::vector<std::string>& paths, std::optional<double> depth_unit = {});

}  // namespace vggt
