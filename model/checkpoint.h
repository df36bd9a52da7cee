#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/files/scratch_file.h"
#include "model/trunk/frame_tensor.h"

namespace vggt {

/// Tensors in a folder, and after how many layers of the trunk they are what they are: all that a later run
/// needs to go on from there. Files are named by checkpoint.json, with shapes, types and checksums. It is
/// replaced when they are on the disk: a killed run leaves the last state that was whole.
class Checkpoint {
 public:
  /// Reads checkpoint.json, where there is one. run: what tells this run from others. Throws
  /// std::invalid_argument naming the file where it is damaged or of another run.
  Checkpoint(std::filesystem::path folder, std::string run);

  /// Whether a folder has finished layers.
  static bool is_in(const std::filesystem::path& folder);
  /// How many it has finished, by a checkpoint.json that may be of any run; 0 where it does not tell.
  static int64_t layers_in(const std::filesystem::path& folder);

  /// Layers that are finished; 0 without a checkpoint.
  int64_t layers() const { return layers_; }
  bool holds(const std::string& name) const { return files_.contains(name); }

  /// Fills a tensor. Throws std::invalid_argument naming the file where it is missing, of another shape or
  /// type, cut off or damaged; std::system_error where it cannot be read.
  void read(const std::string& name, FrameTensor& to) const;

  /// Writes a tensor, which publish() makes part of the checkpoint. Throws std::system_error.
  void write(const std::string& name, FrameTensor& from);
  /// Leaves a tensor out from the next publish() on.
  void drop(const std::string& name);
  /// From now on the checkpoint is what was written, after so many layers.
  void publish(int64_t layers);

 private:
  struct File {
    std::string name;
    std::vector<int64_t> shape;
    std::string type;
    uint32_t crc = 0;
  };

  void read_manifest();

  std::filesystem::path folder_;
  std::string run_;
  int64_t layers_ = 0, published_ = 0;           // published_: how often, which is in the names of files
  std::map<std::string, File> files_;            // by the tensor's name
  std::map<std::string, ScratchBytes> on_disk_;  // by the file's
  std::vector<std::string> replaced_;            // files that the next publish() removes
};

}  // namespace vggt
