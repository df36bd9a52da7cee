#pragma once
#include <Eigen/Geometry>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/scene/dense_maps.h"
#include "app/scene/for_each_frame.h"
#include "app/scene/frame_points.h"
#include "app/scene/rank_search.h"
#include "io/frames/frames.h"
#include "io/scene/camera.h"
#include "io/scene/point_cloud.h"

namespace vggt {

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

/// What is known of a scene before its points are made.
struct BuiltScene {
  int64_t points = 0;
  double conf_threshold = 0, median_depth = 0;
  std::vector<double> mean_confidence;  // per frame
  std::vector<FilterCount> filters;
};

/// Turns dense predictions into coloured points: keeps the maps as they come, and in the end goes through
/// them several times, frame by frame on several threads. Beside the maps its memory does not grow with the
/// number of pixels.
class SceneBuilder {
 public:
  /// `read_rgb` gives the frames' colours. Without cameras (point head only) depth is measured along the
  /// world's z axis, which is the first camera's.
  SceneBuilder(const SceneOptions& options, int width, int height, std::vector<FrameView> frames,
               ReadRgb read_rgb, const std::shared_ptr<HostSpace>& space = std::make_shared<HostSpace>(),
               FrameWork work = {});

  /// Throws std::logic_error unless there is one camera for each frame.
  void set_cameras(std::vector<Camera> cameras);
  /// Before add(): which pixels are used. The others have no part in percentile, mean confidence and points.
  void set_masks(ReadMask read_mask) { read_mask_ = std::move(read_mask); }
  /// Throws std::logic_error for depth without cameras, and what check_stop throws. Chunks may come in any
  /// order and size: the result is the same.
  void add(const DenseChunk& chunk);
  /// The maps of the frames added so far; depth in them may be replaced before finish().
  DenseMaps& maps() { return maps_; }

  /// The depth along the camera's axis, NaN where no point could be made of it.
  void read_depth(int frame, std::span<float> depth) const;
  /// The confidence, NaN where there are no maps of the frame.
  void read_confidence(int frame, std::span<float> confidence) const;

  /// Moves the world: cameras, and depth or points of all frames. Before finish().
  void move(const Eigen::Affine3d& similarity);

  /// Settles which points the scene has. Throws std::logic_error where points are to be confirmed by other
  /// frames and there are no cameras.
  BuiltScene finish();
  /// Index of each frame's first point among the points of the scene, and their number: [S+1]. After
  /// finish().
  std::span<const int64_t> first_points() const { return first_points_; }
  bool has_normals() const { return options_.normals; }
  const FrameWork& work() const { return work_; }
  /// After finish(): makes the points again, with normals where the options say so. take(frame, points) gets
  /// each frame's, in their order (row, column), on several threads at once and frames in any order.
  void for_each_frame_points(const std::function<void(int frame, const PointCloud& points)>& take) const;
  /// The same with the confidence of each point instead of its colour.
  void for_each_frame_positions(const std::function<void(int frame, std::span<const Eigen::Vector3f> points,
                                                         std::span<const float> confidence)>& take) const;

 private:
  using Tally = RankSearch<uint32_t>::Tally;
  struct Worker;  // what a thread makes points with

  std::vector<Worker> workers(double conf_threshold) const;
  /// Calls take(worker, frame) after worker.maker made the points of each frame.
  void make_points(std::vector<Worker>& workers, bool colored,
                   const std::function<void(Worker& worker, int frame)>& take) const;
  bool usable(int frame) const;
  /// Calls take(value) for the confidence of each pixel that shows the image, where it is finite.
  template <class Take>
  void each_confidence(int frame, std::span<const float> confidence, Take&& take) const;
  /// The frame's mask, read into the buffer; empty where there are no masks.
  std::span<const uint8_t> used(int frame, std::vector<uint8_t>& buffer) const;
  /// Finds out which of the points other frames confirm. Returns how many there were, and how many are left.
  FilterCount confirm();
  double confidence_quantile();
  bool is_above_somewhere(float limit) const;
  void count_points(BuiltScene& scene, const std::optional<FilterCount>& confirmed);
  double median_depth(RankSearch<uint32_t>& search, std::vector<Worker>& workers, int64_t points) const;

  SceneOptions options_;
  int width_, height_;
  std::vector<FrameView> frames_;
  std::shared_ptr<HostSpace> space_;
  ReadRgb read_rgb_;
  ReadMask read_mask_;  // empty: there are no masks
  FrameWork work_;
  std::vector<Camera> cameras_;
  DenseMaps maps_;
  std::shared_ptr<const PieceStore>
      confirmed_;                  // of each frame [H,W]: 0 where other frames do not confirm it
  RankSearch<uint32_t> search_;    // of the confidence's percentile
  std::vector<Tally> first_pass_;  // of each thread, over the frames in counted_
  std::vector<char> counted_;      // of each frame, written by several threads
  std::vector<double> mean_confidence_;
  double conf_threshold_ = 0;
  std::vector<int64_t> first_points_;
};

}  // namespace vggt
