#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "app/eval/trajectory_error.h"
#include "app/events/events.h"
#include "io/scene/camera.h"

namespace vggt {

/// What the network gave for some frames, in their order. depth and confidence, [H,W] of each frame, are
/// empty without a depth head.
struct Predictions {
  std::vector<Camera> cameras;
  std::vector<std::vector<float>> depth, confidence;
};

/// Of many differences, without sign. Not numbers where there are none.
struct Spread {
  double median = 0, ninety_percent = 0, largest = 0;
};

/// Of the frames that have a camera on both sides.
struct CameraDifference {
  std::size_t frames = 0;
  // Of every pair of frames, the later one seen from the earlier one: see PairErrors.
  Spread rotation_deg, translation_direction_deg;
  Auc auc;              // of the same pairs
  double position = 0;  // ATE after Sim(3), over the exact centres' root mean square distance to their mean
  Spread field_of_view_deg;  // horizontal
};

struct DepthDifference {
  std::size_t pixels = 0;  // compared: those whose exact confidence is at least its median
  double scale = 1;        // of all frames together: the median of exact / other
  Spread relative;         // |scale·other - exact| / exact
  double exact_confidence = 0, other_confidence = 0;  // medians over all pixels
  double confidence_correlation = 0;                  // Pearson's of the logarithms, over all pixels
};

struct PredictionDifference {
  CameraDifference cameras;
  std::optional<DepthDifference> depth;  // of two sides with depth
};

/// How far predictions are from the exact ones of the same frames. Throws std::invalid_argument where fewer
/// than 2 frames have a camera on both sides, or the sides differ in frames or pixels; and Stopped.
PredictionDifference difference(const Predictions& other, const Predictions& exact, const Events& events);

}  // namespace vggt
