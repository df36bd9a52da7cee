#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace vggt {

/// Which tensors a predictions file gets, and their sizes.
struct PredictionShapes {
  int64_t frames = 0, height = 0, width = 0;
  int64_t queries = 0;  // 0: no tracks
  bool camera = false, depth = false, points = false;
};

/// A .safetensors file of fp32 tensors whose parts are written as they come, each where it belongs in the
/// file. Names and shapes: images [S,3,H,W], pose_enc [S,9], extrinsic [S,3,4], intrinsic [S,3,3], depth and
/// depth_conf [S,H,W], world_points [S,H,W,3], world_points_conf [S,H,W], track [S,Q,2], track_vis and
/// track_conf [S,Q].
class PredictionsWriter {
 public:
  /// Makes the file at its full size, on the file system of `path`: without a name until it is whole, so that
  /// nothing is left of it where the process is killed; where the system has no such files, at place().
  /// Throws std::system_error, as all members do, naming `path`: what the file will be called in the end.
  PredictionsWriter(const std::filesystem::path& path, std::function<std::filesystem::path()> place,
                    const PredictionShapes& shapes);
  PredictionsWriter(const PredictionsWriter&) = delete;
  PredictionsWriter& operator=(const PredictionsWriter&) = delete;

  /// Writes frames [first, first + count) of a tensor. Throws std::logic_error for an unknown name or range.
  void write(const std::string& name, int64_t first, int64_t count, const float* values);
  /// The file stands at place() afterwards. Throws std::logic_error if a tensor is incomplete.
  void close();

 private:
  struct File {
    int descriptor = -1;
    ~File();
  };
  struct Tensor {
    std::vector<int64_t> shape;
    uint64_t offset = 0;  // bytes, in the file
    int64_t frame_values = 0, frames_written = 0;
  };
  void write_at(uint64_t offset, const void* data, std::size_t bytes);
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  std::function<std::filesystem::path()> place_;
  File file_;
  bool has_name_ = false;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace vggt
