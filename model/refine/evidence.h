#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

// What other frames say of a frame's depths. Plain arithmetic, without LibTorch.
namespace vggt {

/// From the space of one camera to the pixels of another frame, which shows a part of its pixels.
struct RefinerTransfer {
  std::array<float, 9> turn;        // row after row
  std::array<float, 3> shift;       // in the unit of depth
  float fx, fy, cx, cy;             // pixels; their middles lie at integers
  std::array<float, 2> distortion;  // k1, k2
  /// Of points of the plane z = 1: beyond, the distortion folds back.
  float most_r2 = std::numeric_limits<float>::max();
  float begin_x, begin_y, end_x, end_y;
};

/// The cues of a source at a depth, beside how alike each group of features is: how nearly its own depth
/// agrees, twice, by how much it differs, whether it sees the point, and how far that moves over all depths.
inline constexpr int64_t kRefinerCues = 5;
/// Most depths, groups of features and outputs of each layer.
inline constexpr int64_t kMostDepths = 16, kMostGroups = 8, kMostScores = 24;

/// Features [h·w,n,kMostGroups] of blocks of a frame's pixels: n of each group. And the blocks' log depth,
/// not a number where a block of a source tells nothing.
struct RefinerMaps {
  const float* features;
  const float* log_depth;
};

/// The two linear layers that weigh cues, row after row: [hidden,groups + cues], [scores,hidden].
struct EvidenceLayers {
  int64_t groups, hidden, scores, depths;
  const float *in_weight, *in_bias, *out_weight, *out_bias;
  const float* offsets;  // [depths], of log depth
};

struct EvidenceSource {
  RefinerMaps maps;
  RefinerTransfer transfer;
};

/// Of the blocks [first, end) of a frame of h×w blocks, each of `side` × `side` pixels: the mean of what the
/// sources say of each depth by their weights, and these weights' sum over `most` sources:
/// [h·w,scores,depths]. in_group: features of a group. rays: x and y, [h·w] each.
void gather_evidence(const EvidenceLayers& layers, int64_t in_group, int64_t h, int64_t w, int64_t side,
                     const RefinerMaps& own, const float* ray_x, const float* ray_y,
                     const std::vector<EvidenceSource>& sources, int64_t most, int64_t first, int64_t end,
                     float* result);

}  // namespace vggt
