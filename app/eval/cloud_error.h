#pragma once
#include <Eigen/Core>
#include <optional>
#include <vector>

namespace vggt {

/// How far a cloud is from the true one, units of the truth.
struct CloudError {
  double accuracy = 0;               // mean distance of the result's points to the nearest true one
  double completeness = 0;           // mean distance of the true points to the nearest of the result
  double chamfer = 0;                // mean of the two
  double precision = 0, recall = 0;  // shares of distances below the threshold
  double f_score = 0;                // their harmonic mean
  double threshold = 0;
};

/// Both clouds lie in one world. The threshold is 1 % of the diagonal of the true cloud's box unless it is
/// given. Throws std::invalid_argument if a cloud is empty or has points beyond 1e100, or if all true points
/// are one and no threshold is given.
CloudError cloud_error(const std::vector<Eigen::Vector3d>& result, const std::vector<Eigen::Vector3d>& truth,
                       std::optional<double> threshold);

}  // namespace vggt
