#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/files/input_file.h"
#include "io/scene/camera.h"
#include "io/scene/depth_files.h"
#include "io/tensors/tensor_index.h"

namespace vggt {

/// Cameras and depth of one or of several scenes in a .safetensors file, as PredictionsWriter writes them:
/// `extrinsic` [S,3,4] (cam_from_world), `intrinsic` [S,3,3] (optional), `depth` [S,H,W] and `valid` [S,H,W]
/// (BOOL or U8; false: no depth; optional), each with B scenes in front or not. A scene is read when it is
/// asked for.
class PredictionFile {
 public:
  /// Throws std::invalid_argument naming path and tensor if there is neither `extrinsic` nor `depth`, or if
  /// types or shapes do not fit; std::system_error if the file cannot be read.
  explicit PredictionFile(const std::filesystem::path& path);

  int64_t scenes() const { return scenes_; }
  bool has_cameras() const { return tensors_.contains("extrinsic"); }
  bool has_depth() const { return tensors_.contains("depth"); }
  /// Cameras without names, whose times are their indices. Their image is that of the depth maps; without
  /// these its middle is the principal point. Throws std::invalid_argument naming the frame whose pose is
  /// none.
  std::vector<FrameCamera> cameras(int64_t scene) const;
  std::vector<DepthMap> depth(int64_t scene) const;  // in the order of the cameras, without names

 private:
  void keep(const TensorIndex& index, const std::string& name, std::vector<int64_t> frame_shape);
  std::vector<float> values(const std::string& name, int64_t scene) const;  // [S,...]
  void set_intrinsics(Camera& camera, const float* intrinsic) const;        // [3,3]
  [[noreturn]] void fail(const std::string& what) const;

  InputFile file_;
  std::map<std::string, TensorEntry> tensors_;  // shapes with B in front
  int64_t scenes_ = 0, frames_ = 0;
};

}  // namespace vggt
