#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/scene/streaming_quantile.h"
#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"

namespace vggt {

struct SceneOptions {
  double conf_percentile = 50;  // % dropped of the pixels that show the image of a frame with a camera
  std::optional<double> conf_threshold;  // instead of the percentile
  bool mask_black = false, mask_white = false;
  double depth_edge = 0;  // greatest spread of depth over 3×3 pixels, as a share of the depth; 0: any
};

/// What the builder needs of a network input frame: its colours and which of its pixels show the image (the
/// rest is padding and gives no points).
struct FrameView {
  const uint8_t* rgb = nullptr;  // planes [3,H,W]
  int begin_x = 0, end_x = 0, begin_y = 0, end_y = 0;
};

/// Consecutive frames of one dense head: depth [count,H,W], or points [count,H,W,3] in world coordinates.
struct DenseChunk {
  int first = 0, count = 0;
  const float* depth = nullptr;
  const float* points = nullptr;
  const float* confidence = nullptr;  // [count,H,W]
};

/// How many points a filter got, and how many it left.
struct FilterCount {
  std::string name;
  int64_t before = 0, after = 0;
};

struct BuiltScene {
  PointCloud cloud;  // ordered by frame, row, column
  double conf_threshold = 0, median_depth = 0;
  std::vector<double> mean_confidence;  // per frame
  std::vector<FilterCount> filters;
};

/// Turns dense predictions into coloured points, chunk after chunk. Of the pixels, only those are kept that
/// can still be above the confidence percentile q: at the end (1 - q)·S·H·W points of 24 bytes each and as
/// many confidences of 4 bytes (StreamingQuantile), on the way up to a quarter more.
class SceneBuilder {
 public:
  /// What `frames` point to must outlive the builder. Without cameras (point head only) depth is measured
  /// along the world's z axis, which is the first camera's.
  SceneBuilder(const SceneOptions& options, int width, int height, std::vector<FrameView> frames);

  /// Throws std::logic_error unless there is one camera for each frame.
  void set_cameras(std::vector<Camera> cameras);
  /// Throws std::logic_error for depth without cameras. Chunks may come in any order and size: the result is
  /// the same.
  void add(const DenseChunk& chunk);
  BuiltScene finish();

 private:
  struct Candidate {
    Eigen::Vector3f point;
    float confidence;
    int64_t pixel;  // frame·H·W + row·W + column
  };
  enum Filter { kInvalidFrame, kPadding, kNotFinite, kMask, kDepthEdge, kFilters };

  void add_frame(int frame, const float* depth, const float* points, const float* confidence);
  std::vector<double> depth_plane(int frame, const float* depth, const float* points) const;
  /// The mean of a frame's confidence, and its part in the percentile.
  void count_confidence(int frame, const float* confidence, bool for_percentile);
  Filter judge(int frame, int x, int y, const std::vector<double>& depth, float confidence) const;
  bool is_masked(int frame, int64_t pixel) const;
  bool is_edge(int x, int y, const std::vector<double>& depth) const;
  Eigen::Vector3d unproject(int frame, int x, int y, double depth) const;
  double depth_of(const Candidate& candidate) const;
  void prune();
  std::vector<FilterCount> filter_counts(std::size_t kept) const;

  SceneOptions options_;
  int width_, height_;
  std::vector<FrameView> frames_;
  std::vector<Camera> cameras_;
  StreamingQuantile top_confidence_;
  std::vector<Candidate> candidates_;
  std::size_t prune_at_;
  int64_t pixels_ = 0;
  std::vector<int64_t> dropped_;  // points that each Filter dropped
  std::vector<double> mean_confidence_;
};

}  // namespace vggt
