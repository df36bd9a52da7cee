#pragma once
#include <functional>
#include <map>
#include <string>

#include "model/vggt.h"

// Runs of networks with few blocks, for the times of their parts.
namespace vggt {

/// Up to where a probe runs: all frames are embedded, the first global block is done, the heads that work
/// frame by frame would begin, the end.
enum class Until { embedded, first_block, trunk, end };

/// Sizes of a run on random pixels.
struct Probe {
  int64_t frames, rows, columns;  // of patches in a frame
  Until until = Until::end;
  int64_t queries = 0;  // of the tracker, where it runs
};

/// A network of an architecture's widths with two pairs of blocks in its trunk, of which the heads read the
/// second, and random weights.
class ProbeNetwork {
 public:
  /// vit_depth, camera_trunk_depth: of the network, the latter no more than the architecture's own.
  /// check_stop: called before each run; it may throw.
  ProbeNetwork(const Config& config, int64_t vit_depth, int64_t camera_trunk_depth,
               const ModelOptions& options, const std::function<void()>& check_stop);

  /// The probe with fewer frames, but no fewer than `least`, where a GPU would take more than max_bytes.
  Probe fitted(Probe probe, int64_t max_bytes, int64_t least = 1) const;

  /// Median seconds of a few runs, by name: stages, "frame_block.0", "global_block.0", and "track_maps" for
  /// the part of "track_head" before its iterations.
  std::map<std::string, double> time(const Probe& probe) const;

 private:
  std::map<std::string, double> run_once(const FrameProvider& frames, const at::Tensor& queries,
                                         Until until) const;

  Config config_;
  ModelOptions options_;
  std::function<void()> check_stop_;
  Vggt model_;
};

/// Returns when the current GPU has done what it was given; at once for the CPU.
void synchronize(at::Device device);
double median(std::vector<double> values);

}  // namespace vggt
