#pragma once
#include <optional>

#include "model/bench/torch_heads.h"
#include "model/bench/torch_trunk.h"
#include "model/frame_provider.h"
#include "model/model_options.h"
#include "model/predictions.h"

namespace vggt {

/// VGGT as PyTorch computes it, of LibTorch's operations alone: what the network and the whole program are
/// measured beside. The trunk sees all frames at once, dense heads eight at a time, as upstream. Of the
/// trunk's outputs it keeps those that heads read, where upstream keeps all.
class TorchNetwork {
 public:
  /// options: device, precision and heads count, the tracker apart, of which there is none.
  TorchNetwork(const Config& config, const TensorSource& source, const ModelOptions& options);

  /// Gives what Vggt::run() gives. Throws c10::Error where memory runs out.
  void run(const FrameProvider& frames, const Sink& sink, const Observer& observer = {}) const;

 private:
  using Kept = std::vector<std::pair<int64_t, at::Tensor>>;  // layers and their tokens [S,P,2C]

  void dense(const TorchDptHead& head, const Kept& kept, const FrameProvider& frames, const char* stage,
             bool is_depth, const Sink& sink, const Observer& observer) const;

  Config config_;
  ModelOptions options_;
  std::optional<TorchTrunk> trunk_;
  std::optional<TorchCameraHead> camera_head_;
  std::optional<TorchDptHead> depth_head_, point_head_;
};

/// About what a run of the TorchNetwork takes beside its weights, bytes.
int64_t torch_network_bytes(const Config& config, const ModelOptions& options, const FrameProvider& frames);

}  // namespace vggt
