#include "app/adjust/depth_correction.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <opencv2/imgproc.hpp>

#include "app/scene/pixel_transfer.h"

namespace vggt {
namespace {

constexpr int kStep = 4;              // pixels: the correction is smooth
constexpr double kReach = 24;         // pixels: deviation of the Gaussian that spreads an anchor's change
constexpr double kVariance = 0.0002;  // of the logarithm of a map's depth, before sightings tell more
constexpr double kFarthest = 0.7;     // of the logarithm: an anchor whose depth changed more is not believed
constexpr float kAgreement = 0.1F, kNeighbourWeight = 0.7F;  // of logarithms of two frames' depths

/// How far the depth that an anchor's sightings gave it is to be trusted, from 0 to 1.
double trust(double information) {
  return information * kVariance / (1 + information * kVariance);
}

/// The correction of the logarithms of a frame's depth: [H,W] as `size` says, from the weighted sums of the
/// anchors' changes and the sums of their weights, both at every kStep-th pixel.
cv::Mat smooth_field(cv::Mat changes, cv::Mat weights, cv::Size size) {
  const double sigma = kReach / kStep, peak = 2 * std::numbers::pi * sigma * sigma;
  cv::GaussianBlur(changes, changes, {}, sigma, 0, cv::BORDER_CONSTANT);
  cv::GaussianBlur(weights, weights, {}, sigma, 0, cv::BORDER_CONSTANT);
  cv::Mat field = peak * changes / (peak * weights + 1);
  cv::resize(field, field, size);
  return field;
}

/// The correction of each frame's logarithms of depth: [H,W].
std::vector<cv::Mat> corrections(const MatchInput& input, const Bundle& bundle,
                                 const std::vector<double>& before) {
  const int rows = (input.height + kStep - 1) / kStep, columns = (input.width + kStep - 1) / kStep;
  const std::vector<double> information = depth_information(bundle);
  std::vector<cv::Mat> changes, weights;
  for (std::size_t i = 0; i < input.frames.size(); ++i) {
    changes.emplace_back(rows, columns, CV_32F, cv::Scalar(0));
    weights.emplace_back(rows, columns, CV_32F, cv::Scalar(0));
  }
  for (std::size_t i = 0; i < bundle.anchors.size(); ++i) {
    const Anchor& anchor = bundle.anchors[i];
    const double moved = anchor.log_depth - before[i], weight = trust(information[i]);
    if (!(std::abs(moved) < kFarthest)) continue;
    const auto frame = static_cast<std::size_t>(anchor.frame);
    const PixelMap& map = input.frames[frame].map;
    const int row = static_cast<int>(std::lround(map.network_y(anchor.pixel.y()))) / kStep,
              column = static_cast<int>(std::lround(map.network_x(anchor.pixel.x()))) / kStep;
    changes[frame].at<float>(row, column) += static_cast<float>(weight * moved);
    weights[frame].at<float>(row, column) += static_cast<float>(weight);
  }
  std::vector<cv::Mat> fields;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    fields.push_back(smooth_field(changes[i], weights[i], {input.width, input.height}));
  }
  return fields;
}

bool usable(float depth) {
  return depth > 0 && std::isfinite(depth);
}

/// Adds to sums and weights what another frame says of the logarithm of a frame's depth.
void add_neighbour(const MatchInput& input, const std::vector<float>& depth, const FrameView& there,
                   const std::vector<float>& depth_there, const PixelTransfer& transfer,
                   std::vector<float>& sums, std::vector<float>& weights) {
  const auto low_x = static_cast<float>(there.begin_x), high_x = static_cast<float>(there.end_x - 1),
             low_y = static_cast<float>(there.begin_y), high_y = static_cast<float>(there.end_y - 1);
  std::size_t pixel = 0;
  for (int y = 0; y < input.height; ++y) {
    for (int x = 0; x < input.width; ++x, ++pixel) {
      if (!usable(depth[pixel])) continue;
      const Eigen::Vector3f seen = transfer(static_cast<float>(x), static_cast<float>(y), depth[pixel]);
      if (!(seen.z() > 0)) continue;
      const float there_x = seen.x() / seen.z(), there_y = seen.y() / seen.z();
      if (!(there_x >= low_x && there_y >= low_y && there_x < high_x && there_y < high_y)) continue;
      const float found = interpolated(depth_there.data(), input.height, input.width, there_x, there_y);
      if (!usable(found)) continue;
      const float difference = std::log(found / seen.z()), share = difference / kAgreement;
      const float weight = kNeighbourWeight * std::exp(-share * share);
      sums[pixel] += weight * difference;
      weights[pixel] += weight;
    }
  }
}

}  // namespace

std::vector<std::vector<float>> correct_depth(const MatchInput& input, const Bundle& bundle,
                                              const std::vector<double>& before,
                                              const std::vector<Camera>& cameras,
                                              const std::vector<std::pair<int, int>>& pairs,
                                              const Events& events) {
  std::vector<cv::Mat> fields = corrections(input, bundle, before);
  const std::size_t pixels = static_cast<std::size_t>(input.height) * static_cast<std::size_t>(input.width);
  std::vector<std::vector<float>> bent(fields.size()), result(fields.size());
  std::vector<std::vector<int>> partners(fields.size());
  for (const auto& [a, b] : pairs) {
    partners[static_cast<std::size_t>(a)].push_back(b);
    partners[static_cast<std::size_t>(b)].push_back(a);
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    bent[f].assign(input.depth[f], input.depth[f] + pixels);
    const float* field = fields[f].ptr<float>();
    for (std::size_t i = 0; i < pixels; ++i) bent[f][i] *= std::exp(field[i]);
    fields[f].release();
  }
  events.check_stop();
  cv::parallel_for_({0, static_cast<int>(fields.size())}, [&](const cv::Range& range) {
    for (auto f = static_cast<std::size_t>(range.start); f < static_cast<std::size_t>(range.end); ++f) {
      std::vector<float> sums(pixels, 0), weights(pixels, 1);
      for (const int partner : partners[f]) {
        const auto other = static_cast<std::size_t>(partner);
        add_neighbour(input, bent[f], input.frames[other].view, bent[other],
                      PixelTransfer(cameras[f], cameras[other]), sums, weights);
      }
      result[f] = bent[f];
      for (std::size_t i = 0; i < pixels; ++i) {
        if (sums[i] != 0) result[f][i] *= std::exp(sums[i] / weights[i]);
      }
    }
  });
  return result;
}

}  // namespace vggt
