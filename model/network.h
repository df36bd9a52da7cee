#pragma once
#include <future>
#include <optional>
#include <vector>

#include "model/heads/camera_head.h"
#include "model/heads/dpt_head.h"
#include "model/heads/track_head.h"
#include "model/state/held_part.h"
#include "model/trunk/aggregator.h"
#include "model/vggt.h"

namespace vggt {

/// How the aggregator computes: its products have operands of the run's precision.
ComputeKind aggregator_kind(Precision precision);
/// How the heads compute: beside an aggregator in bf16 or fp16 their operands stay in fp32, as in the
/// reference, and their convolutions are in TF32, which is PyTorch's default.
ComputeKind head_kind(Precision precision);
/// How the dense heads and the tracker's feature extractor compute: like the other heads, or in bf16.
ComputeKind dense_head_kind(const ModelOptions& options);

/// The parts of the network with their weights.
struct Vggt::Network {
  Network(Binder& bind, const Config& config, const ModelOptions& options);

  void check_process() const;

  Config config;
  ModelOptions options;
  std::optional<Aggregator> aggregator;
  std::optional<HeldPart<CameraHead>> camera_head;
  std::optional<HeldPart<DptHead>> depth_head, point_head;
  std::optional<HeldPart<TrackHead>> track_head;

 private:
  std::vector<std::future<void>> begun_;  // of heads
};

}  // namespace vggt
