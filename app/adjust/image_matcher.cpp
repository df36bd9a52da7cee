#include "app/adjust/image_matcher.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <opencv2/video/tracking.hpp>

#include "app/adjust/image_windows.h"
#include "app/scene/pixel_transfer.h"

namespace vggt {
namespace {

constexpr int kCell = 16, kBorder = 6;               // pixels: one anchor a cell, none at the image's border
constexpr int kVisibleMargin = 4, kMatchMargin = 2;  // pixels from a partner's border
constexpr int kFewestVisible = 15;                   // anchors that a pair must share to be tried
constexpr int kFewestMatches = 15;                   // sightings of a pair, both ways together
constexpr std::size_t kPartners = 8;                 // of a frame
constexpr double kLeastOverlap = 0.25;               // share of a frame's anchors that a partner must see
constexpr float kSameDepth = 0.3F;                   // logarithm: a greater difference means hidden
constexpr float kNearest = 0.05F;                    // depth of the network's unit
constexpr int kLevels = 1, kSteps = 20;              // Lucas-Kanade
constexpr float kFarthest = 25, kRoundTrip = 0.7F;   // pixels
constexpr float kLeastCorrelation = 0.7F;
constexpr float kLeastZoom = 0.25F, kMostZoom = 3;  // of the map between both images, where a match is
constexpr int kPairsAtOnce = 32;

/// The values as OpenCV's matrix, which is only read from.
cv::Mat map_of(const float* values, int height, int width) {
  return {height, width, CV_32F,
          const_cast<float*>(values)};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

float bilinear(const cv::Mat& map, float x, float y) {
  return interpolated(map.ptr<float>(), map.rows, map.cols, x, y);
}

/// An anchor's pixel in the image of its camera.
cv::Point2f pixel_of(const Anchor& anchor, const Camera& camera) {
  return {static_cast<float>(anchor.pixel.x() + camera.k(0, 2)),
          static_cast<float>(anchor.pixel.y() + camera.k(1, 2))};
}

/// Whether a pixel lies in the part that shows the image, at least `margin` pixels from that part's border.
bool within(const FrameView& frame, float x, float y, int margin) {
  return x > static_cast<float>(frame.begin_x + margin) && x < static_cast<float>(frame.end_x - 1 - margin) &&
         y > static_cast<float>(frame.begin_y + margin) && y < static_cast<float>(frame.end_y - 1 - margin);
}

/// Where the other image shows each pixel of a frame with this depth: [H,W,2]; far outside for what lies
/// behind the other camera.
cv::Mat warp_map(const cv::Mat& depth, const PixelTransfer& transfer) {
  cv::Mat map(depth.rows, depth.cols, CV_32FC2);
  for (int y = 0; y < depth.rows; ++y) {
    const float* depths = depth.ptr<float>(y);
    auto* row = map.ptr<cv::Point2f>(y);
    for (int x = 0; x < depth.cols; ++x) {
      const Eigen::Vector3f seen = transfer(static_cast<float>(x), static_cast<float>(y), depths[x]);
      const bool in_front = seen.z() > kNearest;
      row[x] = in_front ? cv::Point2f(seen.x() / seen.z(), seen.y() / seen.z()) : cv::Point2f(-1e4F, -1e4F);
    }
  }
  return map;
}

/// Where image b shows some points of image a, searched from there on, and whether each was found.
std::pair<std::vector<cv::Point2f>, std::vector<uchar>> follow(const cv::Mat& a, const cv::Mat& b,
                                                               const std::vector<cv::Point2f>& start) {
  const cv::TermCriteria enough(cv::TermCriteria::COUNT | cv::TermCriteria::EPS, kSteps, 0.01);
  std::vector<cv::Point2f> found = start;
  std::vector<uchar> good;
  cv::calcOpticalFlowPyrLK(a, b, start, found, good, cv::noArray(), {kWindow, kWindow}, kLevels, enough,
                           cv::OPTFLOW_USE_INITIAL_FLOW, 1e-4);
  return {std::move(found), std::move(good)};
}

}  // namespace

struct ImageMatcher::Images {
  std::vector<cv::Mat> normalised, depth;
  std::vector<cv::Vec3f> structure;  // at the anchors
};

ImageMatcher::ImageMatcher(const MatchInput& input, const std::vector<Camera>& cameras, const Events& events)
    : input_(input), images_(std::make_unique<Images>()) {
  for (std::size_t f = 0; f < input.frames.size(); ++f) {
    events.check_stop();
    first_.push_back(static_cast<int>(anchors_.size()));
    add_anchors(static_cast<int>(f), cameras[f]);
  }
  first_.push_back(static_cast<int>(anchors_.size()));
}

void ImageMatcher::add_anchors(int frame, const Camera& camera) {
  const int height = input_.height, width = input_.width;
  const auto f = static_cast<std::size_t>(frame);
  const FrameView& view = input_.frames[f];
  std::vector<uint8_t> rgb(3 * static_cast<std::size_t>(height) * static_cast<std::size_t>(width));
  input_.read_rgb(f, rgb);
  const cv::Mat gray = gray_of(rgb, height, width);
  images_->normalised.push_back(normalised(gray));
  images_->depth.push_back(map_of(input_.depth[f], height, width));
  if (!camera.valid) return;
  const cv::Mat structure = structure_of(images_->normalised.back());
  const cv::Mat strength = corner_strength(gray, images_->depth.back());
  const Eigen::Vector2d centre(camera.k(0, 2), camera.k(1, 2));
  const cv::Rect wanted(view.begin_x + kBorder, view.begin_y + kBorder,
                        view.end_x - view.begin_x - 2 * kBorder, view.end_y - view.begin_y - 2 * kBorder);
  for (int y = 0; y + kCell <= height; y += kCell) {
    for (int x = 0; x + kCell <= width; x += kCell) {
      const cv::Rect cell = cv::Rect(x, y, kCell, kCell) & wanted;
      if (cell.empty()) continue;
      double best = 0;
      cv::Point pixel;
      cv::minMaxLoc(strength(cell), nullptr, &best, nullptr, &pixel);
      if (!(best > 0)) continue;
      pixel += cell.tl();
      const double depth = images_->depth.back().at<float>(pixel);
      if (!(depth > 0 && std::isfinite(depth))) continue;
      anchors_.push_back({frame, Eigen::Vector2d(pixel.x, pixel.y) - centre, std::log(depth)});
      images_->structure.push_back(structure.at<cv::Vec3f>(pixel));
    }
  }
}

ImageMatcher::~ImageMatcher() = default;

/// Indices of the anchors of one frame that another frame should see.
std::vector<int> ImageMatcher::visible(const std::vector<Camera>& cameras, int from, int to) const {
  const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  const PixelTransfer transfer(cameras[f], cameras[t]);
  const FrameView& target = input_.frames[t];
  std::vector<int> found;
  for (int i = first_[f]; i < first_[f + 1]; ++i) {
    const Anchor& anchor = anchors_[static_cast<std::size_t>(i)];
    const cv::Point2f at = pixel_of(anchor, cameras[f]);
    const Eigen::Vector3f seen = transfer(at.x, at.y, static_cast<float>(std::exp(anchor.log_depth)));
    if (!(seen.z() > kNearest)) continue;
    const float there_x = seen.x() / seen.z(), there_y = seen.y() / seen.z();
    if (!within(target, there_x, there_y, kVisibleMargin)) continue;
    if (std::abs(std::log(bilinear(images_->depth[t], there_x, there_y) / seen.z())) < kSameDepth)
      found.push_back(i);
  }
  return found;
}

std::vector<std::pair<int, int>> ImageMatcher::pairs(const std::vector<Camera>& cameras,
                                                     const Events& events) const {
  const int count = static_cast<int>(cameras.size());
  const double share = cameras.size() <= kPartners + 1 ? 0 : kLeastOverlap;  // few frames: any overlap helps
  std::vector<std::pair<int, int>> chosen;
  for (int from = 0; from < count; ++from) {
    events.check_stop();
    const auto f = static_cast<std::size_t>(from);
    if (!cameras[f].valid) continue;
    const auto least =
        std::max<std::size_t>(kFewestVisible, static_cast<std::size_t>(share * (first_[f + 1] - first_[f])));
    std::vector<std::pair<std::size_t, int>> partners;  // anchors seen, frame
    for (int to = 0; to < count; ++to) {
      if (to == from || !cameras[static_cast<std::size_t>(to)].valid) continue;
      const std::size_t seen = visible(cameras, from, to).size();
      if (seen >= least) partners.emplace_back(seen, to);
    }
    std::ranges::sort(partners, std::greater());
    const std::size_t taken = std::min(kPartners, partners.size());
    for (std::size_t i = 0; i < taken; ++i) {
      const std::size_t rank = taken > 1 ? i * (partners.size() - 1) / (taken - 1) : 0;
      chosen.emplace_back(std::minmax(from, partners[rank].second));
    }
  }
  std::ranges::sort(chosen);
  const auto repeated = std::ranges::unique(chosen);
  chosen.erase(repeated.begin(), repeated.end());
  return chosen;
}

std::vector<Sighting> ImageMatcher::match_one(const std::vector<Camera>& cameras, int from, int to) const {
  const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  const std::vector<int> wanted = visible(cameras, from, to);
  if (wanted.size() < kFewestVisible) return {};

  const PixelTransfer transfer(cameras[f], cameras[t]);
  const cv::Mat map = warp_map(images_->depth[f], transfer);
  cv::Mat warped;
  cv::remap(images_->normalised[t], warped, map, {}, cv::INTER_LINEAR, cv::BORDER_CONSTANT, 128);

  std::vector<cv::Point2f> at;
  for (const int i : wanted) {
    at.push_back(pixel_of(anchors_[static_cast<std::size_t>(i)], cameras[f]));
  }
  const auto [there, good] = follow(images_->normalised[f], warped, at);
  const auto [back, good_back] = follow(warped, images_->normalised[f], there);

  std::vector<cv::Mat> axes;
  cv::split(map, axes);
  const auto mapped = [&](const cv::Point2f& p) {
    return cv::Point2f(bilinear(axes[0], p.x, p.y), bilinear(axes[1], p.x, p.y));
  };
  const FrameView& target = input_.frames[t];
  std::vector<Sighting> sightings;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const cv::Point2f& p = there[i];
    const bool found = good[i] && good_back[i] && cv::norm(p - at[i]) < kFarthest &&
                       cv::norm(back[i] - at[i]) < kRoundTrip && p.x > 3 && p.y > 3 &&
                       p.x < static_cast<float>(input_.width - 4) &&
                       p.y < static_cast<float>(input_.height - 4);
    if (!found) continue;
    const cv::Point2f seen = mapped(p);
    const cv::Point2f right = (mapped(p + cv::Point2f(2, 0)) - seen) / 2,
                      below = (mapped(p + cv::Point2f(0, 2)) - seen) / 2;
    const auto [least, most] = std::minmax({cv::norm(right), cv::norm(below)});
    const bool steady = most < kMostZoom && least > kLeastZoom;
    if (!steady || !within(target, seen.x, seen.y, kMatchMargin) ||
        !(correlation(images_->normalised[f], at[i], warped, p) > kLeastCorrelation))
      continue;
    const double noise = noise_between(images_->normalised[f], at[i], warped, p);
    sightings.push_back(
        {wanted[i], to, Eigen::Vector2d(seen.x - cameras[t].k(0, 2), seen.y - cameras[t].k(1, 2)),
         whitening_of(images_->structure[static_cast<std::size_t>(wanted[i])], noise, right, below)});
  }
  return sightings;
}

std::vector<Sighting> ImageMatcher::match(const std::vector<Camera>& cameras,
                                          const std::vector<std::pair<int, int>>& pairs,
                                          const Events& events) const {
  std::vector<Sighting> all;
  const int count = static_cast<int>(pairs.size());
  for (int first = 0; first < count; first += kPairsAtOnce) {
    events.check_stop();
    events.progress("adjustment", "pairs", first, count);
    const int block = std::min(kPairsAtOnce, count - first);
    std::vector<std::vector<Sighting>> found(2 * static_cast<std::size_t>(block));
    cv::parallel_for_({0, 2 * block}, [&](const cv::Range& range) {
      for (int i = range.start; i < range.end; ++i) {
        const auto& [a, b] = pairs[static_cast<std::size_t>(first + i / 2)];
        found[static_cast<std::size_t>(i)] = i % 2 == 0 ? match_one(cameras, a, b) : match_one(cameras, b, a);
      }
    });
    for (std::size_t i = 0; i < found.size(); i += 2) {
      if (found[i].size() + found[i + 1].size() < kFewestMatches) continue;
      all.insert(all.end(), found[i].begin(), found[i].end());
      all.insert(all.end(), found[i + 1].begin(), found[i + 1].end());
    }
  }
  events.progress("adjustment", "pairs", count, count);
  std::ranges::stable_sort(all, {}, &Sighting::anchor);
  return all;
}

}  // namespace vggt
