#include "model/refine_poses.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "model/median.h"

namespace vggt {
namespace {

constexpr int kIterations = 10, kFewest = 12;  // samples that settle a pose
constexpr double kSamples = 2048;              // of a frame, about
constexpr double kNearest = 0.05;              // of the scene's unit: what is nearer does not count
constexpr double kInlier = 0.01;               // tangent of the angle at which a sample counts half
// What a fit must keep to: the turn from the head's pose in radians, the shift in the frame's median depths,
// and the angle (its tangent) within which half of the weight is seen.
constexpr double kFarthestTurn = 0.5, kFarthestShift = 0.25, kFit = 0.1;
constexpr double kMostWeight = 20;  // of the median: one sample cannot decide
// By measurement: with a third to a half the poses are best, with the fit alone worse than the head's.
constexpr double kShareOfFit = 0.4;

using Vector6d = Eigen::Matrix<double, 6, 1>;
using Matrix6d = Eigen::Matrix<double, 6, 6>;

struct Pose {
  Eigen::Quaterniond rotation;
  Eigen::Vector3d translation;
};

/// A point of the world, and where its pixel lies on the plane z = 1 of the camera.
struct Sample {
  Eigen::Vector3d point;
  Eigen::Vector2d seen;
  double weight;
};

/// Every step-th pixel of a frame, from step / 2 on.
struct Grid {
  Grid(int64_t height_, int64_t width_)
      : height(height_),
        width(width_),
        step(std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(height) *
                                                         static_cast<double>(width) / kSamples)))) {}

  /// [F,H,W,...] to [F,h,w,...] in double.
  at::Tensor of(const at::Tensor& maps) const {
    return maps.slice(1, step / 2, std::nullopt, step)
        .slice(2, step / 2, std::nullopt, step)
        .to(at::kDouble)
        .contiguous();
  }

  int64_t height, width, step;
};

/// Of a frame's points and confidence on the grid: those with a finite point and confidence, weighted by what
/// the confidence is above its least, 1.
std::vector<Sample> take_samples(const double* points, const double* confidence, const Grid& grid,
                                 double fov_h, double fov_w) {
  const auto height = static_cast<double>(grid.height), width = static_cast<double>(grid.width);
  const double down = 2 * std::tan(fov_h / 2) / height, across = 2 * std::tan(fov_w / 2) / width;
  std::vector<Sample> samples;
  std::vector<double> weights;
  int64_t pixel = 0;
  for (int64_t y = grid.step / 2; y < grid.height; y += grid.step) {
    for (int64_t x = grid.step / 2; x < grid.width; x += grid.step, ++pixel) {
      const Eigen::Map<const Eigen::Vector3d> point(points + 3 * pixel);
      if (!point.allFinite() || !(confidence[pixel] >= 1) || !std::isfinite(confidence[pixel])) continue;
      const Eigen::Vector2d seen((static_cast<double>(x) - width / 2) * across,
                                 (static_cast<double>(y) - height / 2) * down);
      samples.push_back({point, seen, confidence[pixel] - 0.99});
      weights.push_back(samples.back().weight);
    }
  }
  if (samples.empty()) return samples;
  const double most = kMostWeight * median(std::span(weights));
  double total = 0;
  for (Sample& sample : samples) total += sample.weight = std::min(sample.weight, most);
  for (Sample& sample : samples) sample.weight /= total;
  return samples;
}

/// One step of Gauss-Newton on the reprojection errors, reweighted by Cauchy's function. False where it leads
/// nowhere.
bool improve(Pose& pose, const std::vector<Sample>& samples) {
  Matrix6d hessian = 1e-9 * Matrix6d::Identity();
  Vector6d gradient = Vector6d::Zero();
  int used = 0;
  const Eigen::Matrix3d rotation = pose.rotation.toRotationMatrix();
  for (const Sample& sample : samples) {
    const Eigen::Vector3d in_camera = rotation * sample.point + pose.translation;
    if (!(in_camera.z() > kNearest)) continue;
    const double inverse = 1 / in_camera.z(), x = in_camera.x() * inverse, y = in_camera.y() * inverse;
    const Eigen::Vector2d residual = Eigen::Vector2d(x, y) - sample.seen;
    Eigen::Matrix<double, 2, 6> jacobian;  // by translation, then by rotation from the left
    jacobian << inverse, 0, -x * inverse, -x * y, 1 + x * x, -y,  //
        0, inverse, -y * inverse, -(1 + y * y), x * y, x;
    const double weight = sample.weight / (1 + residual.squaredNorm() / (kInlier * kInlier));
    hessian += weight * jacobian.transpose() * jacobian;
    gradient += weight * jacobian.transpose() * residual;
    ++used;
  }
  const Vector6d change = -hessian.ldlt().solve(gradient);
  if (used < kFewest || !change.allFinite()) return false;
  const double angle = change.tail<3>().norm();
  const Eigen::Quaterniond turn(angle > 0 ? Eigen::AngleAxisd(angle, change.tail<3>() / angle)
                                          : Eigen::AngleAxisd::Identity());
  pose.rotation = (turn * pose.rotation).normalized();
  pose.translation = turn * pose.translation + change.head<3>();
  return true;
}

/// Whether the fit explains most of the points and is near the head's pose.
bool holds(const Pose& fit, const Pose& head, const std::vector<Sample>& samples) {
  double explained = 0;
  std::vector<double> depths;
  for (const Sample& sample : samples) {
    const Eigen::Vector3d in_camera = fit.rotation * sample.point + fit.translation;
    if (!(in_camera.z() > kNearest)) continue;
    depths.push_back(in_camera.z());
    if ((in_camera.head<2>() / in_camera.z() - sample.seen).norm() < kFit) explained += sample.weight;
  }
  return explained > 0.5 && fit.rotation.angularDistance(head.rotation) < kFarthestTurn &&
         (fit.translation - head.translation).norm() < kFarthestShift * median(std::span(depths));
}

std::optional<Pose> fitted(const Pose& head, const std::vector<Sample>& samples) {
  Pose pose = head;
  for (int i = 0; i < kIterations; ++i) {
    if (!improve(pose, samples)) return std::nullopt;
  }
  return holds(pose, head, samples) ? std::optional(pose) : std::nullopt;
}

void refine(double* encoding, const double* points, const double* confidence, const Grid& grid) {
  const Eigen::Map<const Eigen::Matrix<double, 9, 1>> given(encoding);
  const double fov_h = given[7], fov_w = given[8];
  Pose head{Eigen::Quaterniond(given[6], given[3], given[4], given[5]), given.head<3>()};
  const bool usable = given.allFinite() && head.rotation.norm() > 0 && fov_h > 0 && fov_w > 0 &&
                      std::max(fov_h, fov_w) < std::numbers::pi;
  if (!usable) return;
  head.rotation.normalize();
  const std::optional<Pose> fit = fitted(head, take_samples(points, confidence, grid, fov_h, fov_w));
  if (!fit) return;
  const Eigen::Quaterniond rotation = head.rotation.slerp(kShareOfFit, fit->rotation);
  const Eigen::Vector3d translation = (1 - kShareOfFit) * head.translation + kShareOfFit * fit->translation;
  Eigen::Map<Eigen::Vector3d>{encoding} = translation;
  Eigen::Map<Eigen::Vector4d>{encoding + 3} = rotation.coeffs();  // xyzw
}

}  // namespace

at::Tensor refine_poses(const at::Tensor& pose_enc, const at::Tensor& points, const at::Tensor& confidence) {
  TORCH_CHECK(points.dim() == 4 && points.size(3) == 3 && confidence.sizes() == points.sizes().slice(0, 3) &&
                  pose_enc.dim() == 2 && pose_enc.size(0) == points.size(0) && pose_enc.size(1) == 9,
              "refine_poses: expected [F,9], [F,H,W,3], [F,H,W], got ", pose_enc.sizes(), ", ",
              points.sizes(), ", ", confidence.sizes());
  const Grid grid(points.size(1), points.size(2));
  const at::Tensor sampled = grid.of(points), confident = grid.of(confidence);  // [F,h,w,3], [F,h,w]
  at::Tensor poses = pose_enc.to(at::kDouble, false, /*copy=*/true).contiguous();
  const int64_t F = poses.size(0), count = confident.size(1) * confident.size(2);
  for (int64_t f = 0; f < F; ++f) {
    refine(poses.data_ptr<double>() + 9 * f, sampled.const_data_ptr<double>() + 3 * count * f,
           confident.const_data_ptr<double>() + count * f, grid);
  }
  return poses.to(pose_enc.scalar_type());
}

}  // namespace vggt
