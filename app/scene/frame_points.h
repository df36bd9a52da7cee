#pragma once
#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/scene/camera.h"

namespace vggt {

struct SceneOptions {
  double conf_percentile = 50;  // % dropped of the pixels that show the image of a frame with a camera
  std::optional<double> conf_threshold;  // instead of the percentile
  bool mask_black = false, mask_white = false;
  double depth_edge = 0;  // greatest spread of depth over 3×3 pixels, as a share of the depth; 0: any
  int consistent = 0;     // frames that must confirm a point, see depth_agreement.h; 0: none
  bool normals = false;   // points have them
};

/// Which pixels of a network input frame show the image; the rest is padding and gives no points.
struct FrameView {
  int begin_x = 0, end_x = 0, begin_y = 0, end_y = 0;
};

/// One frame for FramePoints: its view and camera, and its maps.
struct FrameMaps {
  FrameView view;
  const Camera* camera = nullptr;        // none: the world's z axis is the camera's
  std::span<const float> depth, points;  // [H,W] or [H,W,3]; the other is empty
  std::span<const float> confidence;     // [H,W]
  std::span<const uint8_t> rgb;          // planes [3,H,W]; only where the colour drops pixels
  std::span<const uint8_t> used;         // [H,W], 0 where the frame's mask is black; empty: all are used
  std::span<const uint8_t> confirmed;  // [H,W], 0 where other frames do not confirm the depth; empty: all do
};

/// Why a pixel gives no point: the first of these that holds.
enum class Drop { invalid_frame, padding, mask, not_finite, color, depth_edge };
constexpr std::size_t kDrops = 6;

/// Makes the points of one frame after the other; each thread has its own.
class FramePoints {
 public:
  FramePoints(const SceneOptions& options, int width, int height, double conf_threshold);

  /// The points of the pixels that nothing drops, that are at least as confident as the threshold, and that
  /// are confirmed.
  void make(const FrameMaps& frame, bool with_normals = false);

  const std::vector<Eigen::Vector3f>& points() const { return points_; }
  const std::vector<int>& pixels() const { return pixels_; }  // row·W + column of each point
  /// As surface_normal(), where they were asked for.
  const std::vector<Eigen::Vector3f>& normals() const { return normals_; }
  const std::array<int64_t, kDrops>& dropped() const { return dropped_; }  // of this frame
  /// The depth of a point: along the camera's axis.
  double depth_of(const Eigen::Vector3f& point) const;

 private:
  void read_depth(const FrameMaps& frame);
  std::size_t keep_plain(const FrameMaps& frame, int y);
  double depth_at(const FrameMaps& frame, std::size_t pixel) const {
    return frame.points.empty() ? frame.depth[pixel] : depth_[pixel];
  }
  bool is_background(const FrameMaps& frame, std::size_t pixel) const;
  bool is_edge(int x, int y) const;
  Eigen::Vector3f unproject(int x, int y, double depth) const;
  Eigen::Vector3f point_at(const FrameMaps& frame, int x, int y) const;
  void make_normals(const FrameMaps& frame);

  SceneOptions options_;
  int width_, height_;
  uint32_t least_key_;          // of a confidence that reaches it
  std::vector<double> depth_;   // [H,W] along the camera's axis, of points and where edges count
  std::vector<int> kept_;       // columns of a row
  std::vector<uint8_t> keeps_;  // of each column, whether it is kept
  Eigen::RowVector4d axis_;
  Eigen::Matrix3d rotation_;  // of cam_from_world
  Eigen::Vector3d translation_;
  const Camera* camera_ = nullptr;     // of the frame that is made
  std::vector<double> across_, down_;  // of each column and row, at depth 1, without distortion
  std::vector<Eigen::Vector3f> points_;
  std::vector<int> pixels_;
  std::vector<Eigen::Vector3f> normals_;
  std::array<int64_t, kDrops> dropped_{};
};

}  // namespace vggt
