#include "app/adjust/image_matcher.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <opencv2/imgproc.hpp>

#include "app/adjust/sighting_error.h"

namespace vggt {
namespace {

constexpr double kAnchors = 800, kAnchorsOfMany = 320;            // of a frame: one a cell
constexpr int64_t kMany = 64;                                     // frames
constexpr int kLeastCell = 8;                                     // pixels
constexpr int kBorder = 6, kVisibleMargin = 4, kMatchMargin = 2;  // network pixels from the border
constexpr int kFewestVisible = 15;  // anchors that a pair must share to be tried
constexpr int kFewestMatches = 15;  // sightings of a pair, both ways together
constexpr std::size_t kPartners = 12, kPartnersOfMany = 8, kPartnersOfWeak = 40;  // of a frame
constexpr double kLeastOverlap = 0.25;                // share of a frame's anchors that a partner must see
constexpr int kLookedAt = 200, kLookedAtOfMany = 60;  // anchors of a frame by which partners are chosen
constexpr double kSameDepth = 0.3;                    // logarithm: a greater difference means hidden
constexpr double kNearest = 0.05;  // of its depth in its own frame: an anchor nearer is behind
constexpr float kLeastZoom = 0.25F, kMostZoom = 3;  // of the map between both images, where a match is
constexpr double kBackAgain = 1.5;                  // pixels of the finest level: there and back
constexpr double kLeastError = 0.15;                // pixels of the finest level, of a match however clear
constexpr int kPairsAtOnce = 128, kPairsOfManyAtOnce = 32;  // in memory with their frames
constexpr int kFramesAtOnce = 32;
constexpr float kEdgeWeight = 0.05F;  // of a corner at an edge of depth

cv::Mat gray_copy_of(const MatchInput& input, std::size_t frame) {
  const MatchFrame& own = input.frames[frame];
  if (input.read_gray && own.gray_width > 0) {
    cv::Mat gray(own.gray_height, own.gray_width, CV_8U);
    input.read_gray(frame, {gray.data, gray.total()});
    return gray;
  }
  std::vector<uint8_t> rgb(3 * static_cast<std::size_t>(input.height) *
                           static_cast<std::size_t>(input.width));
  input.read_rgb(frame, rgb);
  return gray_of(rgb, input.height, input.width);
}

PixelMap gray_map(const MatchInput& input, const MatchFrame& frame) {
  if (!input.read_gray || frame.gray_width == 0) return frame.map;
  return {static_cast<double>(frame.gray_width) / frame.original_width,
          static_cast<double>(frame.gray_height) / frame.original_height, 0, 0};
}

/// The level whose longer side is nearest to `side`.
int level_of(const std::vector<ImageLevel>& levels, double side) {
  int best = 0;
  double least = 1e9;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const double off = std::abs(std::log(std::max(levels[i].image.cols, levels[i].image.rows) / side));
    if (off < least) {
      least = off;
      best = static_cast<int>(i);
    }
  }
  return best;
}

double usual_anchors(int64_t frames) {
  return are_many(frames) ? kAnchorsOfMany : kAnchors;
}

}  // namespace

bool are_many(int64_t frames) {
  return frames > kMany;
}

int64_t most_looked_for(int64_t frames) {
  const auto partners = static_cast<int64_t>(are_many(frames) ? kPartnersOfMany : kPartners);
  return frames * std::min(frames - 1, partners) * static_cast<int64_t>(usual_anchors(frames));
}

double share_of_anchors(int64_t frames, double pixels) {
  return std::min(1.0, pixels / (kLeastCell * kLeastCell * usual_anchors(frames)));
}

struct ImageMatcher::Relation {
  Relation(const Bundle& bundle, int from_frame, int to_frame)
      : from(from_frame),
        to(to_frame),
        from_lens(
            bundle.lenses[static_cast<std::size_t>(bundle.lens_of[static_cast<std::size_t>(from_frame)])]),
        to_lens(bundle.lenses[static_cast<std::size_t>(bundle.lens_of[static_cast<std::size_t>(to_frame)])]) {
    const Eigen::Isometry3d &a = bundle.poses[static_cast<std::size_t>(from)],
                            &b = bundle.poses[static_cast<std::size_t>(to)];
    turn = b.linear() * a.linear().transpose();
    shift = b.translation() - turn * a.translation();
  }

  /// How `to` shows the plane around an anchor.
  PatchWarp warp(const Eigen::Vector2d& pixel, float inverse_depth, const Eigen::Vector2f& slope) const {
    const Eigen::Vector2d normal = seen_at(from_lens, pixel);
    const Eigen::Matrix2d by_normal = from_lens.focal.asDiagonal() * distortion_slope(from_lens, normal);
    const Eigen::Matrix2d by_pixel = by_normal.inverse();
    PatchWarp warp;
    warp.at = (turn * normal.homogeneous() + inverse_depth * shift).cast<float>();
    warp.slopes = (turn.leftCols<2>() * by_pixel + shift * slope.cast<double>().transpose()).cast<float>();
    warp.focal = to_lens.focal.cast<float>();
    warp.centre = to_lens.centre.cast<float>();
    warp.distortion = to_lens.distortion.cast<float>();
    return warp;
  }

  int from, to;
  const Lens &from_lens, &to_lens;
  Eigen::Matrix3d turn;
  Eigen::Vector3d shift;
};

ImageMatcher::ImageMatcher(const MatchInput& input, const DenseMaps& depth, const std::vector<bool>& usable,
                           bool lean, const Events& events)
    : input_(input),
      depth_(depth),
      usable_(usable),
      usable_count_(std::ranges::count(usable, true)),
      lean_(lean),
      images_(input.space, input.frames.size()),
      sketches_(input.frames.size()) {
  std::vector<std::vector<Anchor>> found(input.frames.size());
  const int frames = static_cast<int>(found.size());
  const int at_once = lean ? 1 : kFramesAtOnce;
  for (int begin = 0; begin < frames; begin += at_once) {
    events.check_stop();
    cv::parallel_for_({begin, std::min(frames, begin + at_once)}, [&](const cv::Range& range) {
      for (int i = range.start; i < range.end; ++i) {
        const auto f = static_cast<std::size_t>(i);
        if (!usable[f]) continue;
        const cv::Mat gray = gray_copy_of(input, f);
        const PixelMap map = gray_map(input, input.frames[f]);
        const MatchedFrame frame(input, depth, nullptr, f);
        images_.put(f, image_levels(gray, map));
        sketches_[f] = DepthSketch(frame);
        found[f] = find_anchors(frame, i, gray, map);
      }
    });
  }
  for (const std::vector<Anchor>& own : found) {
    first_.push_back(static_cast<int>(anchors_.size()));
    anchors_.insert(anchors_.end(), own.begin(), own.end());
  }
  first_.push_back(static_cast<int>(anchors_.size()));
}

std::vector<Anchor> ImageMatcher::find_anchors(const MatchedFrame& frame, int number, const cv::Mat& gray,
                                               const PixelMap& map) const {
  const cv::Mat strength = corner_strength(gray), edges = depth_edges(frame.depth());
  const PixelMap& network = frame.own().map;
  const double wanted = usual_anchors(usable_count_);
  const int cell =
      std::max(kLeastCell, static_cast<int>(std::sqrt(static_cast<double>(gray.total()) / wanted)));
  std::vector<Anchor> anchors;
  for (int top = 0; top + cell / 2 <= gray.rows; top += cell) {
    for (int left = 0; left + cell / 2 <= gray.cols; left += cell) {
      float best = 0;
      Anchor anchor{number, {}, 0};
      for (int y = top; y < std::min(gray.rows, top + cell); ++y) {
        const auto* row = strength.ptr<float>(y);
        for (int x = left; x < std::min(gray.cols, left + cell); ++x) {
          if (!(row[x] > best)) continue;
          const Eigen::Vector2d pixel(map.original_x(x), map.original_y(y));
          if (!frame.shows(pixel, kBorder) || !frame.used(pixel)) continue;
          const int column = static_cast<int>(std::lround(network.network_x(pixel.x()))),
                    line = static_cast<int>(std::lround(network.network_y(pixel.y())));
          const float value = edges.at<uint8_t>(line, column) != 0 ? kEdgeWeight * row[x] : row[x];
          if (!(value > best)) continue;
          best = value;
          anchor.pixel = pixel;
        }
      }
      if (!(best > 0)) continue;
      const float depth = frame.depth_at(anchor.pixel);
      if (!(depth > 0 && std::isfinite(depth))) continue;
      anchor.log_depth = std::log(static_cast<double>(depth));
      anchors.push_back(anchor);
    }
  }
  return anchors;
}

/// Whether `to` should see an anchor of `from`. Frame: what tells the depth of `to`; null: nothing hides it.
template <class Frame>
bool ImageMatcher::visible(const Bundle& bundle, const Relation& relation, int index, const Frame* to) const {
  const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(index)];
  const double depth = std::exp(anchor.log_depth);
  const Eigen::Vector3d seen =
      relation.turn * (depth * seen_at(relation.from_lens, anchor.pixel).homogeneous()) + relation.shift;
  if (!(seen.z() > kNearest * depth)) return false;
  const Eigen::Vector2d pixel = shown_at(relation.to_lens, seen.head<2>() / seen.z());
  if (!shows(input_.frames[static_cast<std::size_t>(relation.to)], pixel, kVisibleMargin)) return false;
  return !to || std::abs(std::log(to->depth_at(pixel) / seen.z())) < kSameDepth;
}

std::vector<std::pair<int, int>> ImageMatcher::pairs(const Bundle& bundle, const std::vector<bool>& weak,
                                                     const Events& events) const {
  const int count = static_cast<int>(usable_.size());
  const bool many = are_many(usable_count_);
  const std::size_t usual = many ? kPartnersOfMany : kPartners;
  const bool few = usable_count_ <= int64_t{kPartners} + 1;  // of which any overlap helps
  const double share = few ? 0 : kLeastOverlap;
  std::vector<std::vector<std::pair<int, int>>> of_frame(usable_.size());
  events.check_stop();
  cv::parallel_for_({0, count}, [&](const cv::Range& range) {
    for (int from = range.start; from < range.end; ++from) {
      const auto f = static_cast<std::size_t>(from);
      if (!usable_[f]) continue;
      const int anchors = first_[f + 1] - first_[f],
                step = std::max(1, anchors / (many ? kLookedAtOfMany : kLookedAt));
      const double looked_at = std::max(1, (anchors + step - 1) / step),
                   least = std::max(kFewestVisible * looked_at / std::max(1, anchors),
                                    weak[f] ? 0 : share * looked_at);
      std::vector<std::pair<int, int>> partners;  // anchors seen, frame
      for (int to = 0; to < count; ++to) {
        if (to == from || !usable_[static_cast<std::size_t>(to)]) continue;
        const Relation relation(bundle, from, to);
        const DepthSketch& sketch = sketches_[static_cast<std::size_t>(to)];
        int seen = 0;
        for (int i = first_[f]; i < first_[f + 1]; i += step)
          seen += visible(bundle, relation, i, &sketch) ? 1 : 0;
        if (seen > 0 && seen >= least) partners.emplace_back(seen, to);
      }
      std::ranges::sort(partners, std::greater());
      const std::size_t taken = std::min(weak[f] ? kPartnersOfWeak : usual, partners.size());
      for (std::size_t i = 0; i < taken; ++i) {
        const std::size_t rank = taken > 1 ? i * (partners.size() - 1) / (taken - 1) : 0;
        of_frame[f].emplace_back(std::minmax(from, partners[rank].second));
      }
    }
  });
  std::vector<std::pair<int, int>> chosen;
  for (const auto& own : of_frame) chosen.insert(chosen.end(), own.begin(), own.end());
  std::ranges::sort(chosen);
  const auto repeated = std::ranges::unique(chosen);
  chosen.erase(repeated.begin(), repeated.end());
  return chosen;
}

Matches ImageMatcher::match_one(const Bundle& bundle, const Loaded& loaded, int from, int to,
                                const MatchPass& pass) const {
  const auto f = static_cast<std::size_t>(from);
  const Relation relation(bundle, from, to);
  const MatchedFrame &own = *loaded.at(from), &other = *loaded.at(to);
  const std::vector<ImageLevel>&here = own.images(), &there = other.images();
  const LevelRange range{level_of(here, pass.coarsest_side), level_of(here, pass.finest_side)};
  const PixelMap& finest = here[static_cast<std::size_t>(range.finest)].map;
  const double pixel_size = 1 / finest.scale_x;  // of the finest level, in the original's
  const double farthest = pass.farthest * std::max(own.own().original_width, own.own().original_height);
  Matches result;
  int seen = 0;
  for (int i = first_[f]; i < first_[f + 1]; i += pass.every) {
    if (!visible(bundle, relation, i, pass.by_depth ? &other : nullptr)) continue;
    ++seen;
    if (pass.only && !std::ranges::binary_search(*pass.only, std::pair(i, to))) continue;
    ++result.looked_for;
    const Anchor& anchor = bundle.anchors[static_cast<std::size_t>(i)];
    const DepthPlane plane = own.plane_at(anchor, 8 * pixel_size);
    const PatchWarp warp = relation.warp(anchor.pixel, plane.inverse_depth, plane.slope);
    const Eigen::Matrix2f slopes = warp.jacobian();
    const auto [least, most] = std::minmax({slopes.col(0).norm(), slopes.col(1).norm()});
    if (!(most < kMostZoom && least > kLeastZoom)) continue;
    const Eigen::Vector2f pixel = anchor.pixel.cast<float>();
    const FoundPatch found = find_patch(here, pixel, there, warp, range);
    if (!(found.correlation > pass.least_correlation && found.shift.norm() < farthest)) continue;
    const Eigen::Vector2d there_pixel = found.pixel.cast<double>();
    if (!other.shows(there_pixel, kMatchMargin) || !other.used(there_pixel)) continue;
    if (pass.there_and_back) {
      const PatchWarp back = PatchWarp::affine(pixel + found.shift, slopes.inverse());
      const LevelRange levels{level_of(there, pass.coarsest_side), level_of(there, pass.finest_side)};
      const FoundPatch again = find_patch(there, found.pixel, here, back, levels);
      if (!(again.correlation > pass.least_correlation &&
            (again.pixel - pixel).norm() < kBackAgain * pixel_size))
        continue;
    }
    const double size_there = pixel_size * std::sqrt(std::abs(slopes.determinant()));
    Eigen::Matrix2d covariance = found.covariance;
    covariance.diagonal().array() += std::pow(kLeastError * size_there, 2);
    result.sightings.push_back(
        {i, to, there_pixel, covariance.llt().matrixL().solve(Eigen::Matrix2d::Identity())});
  }
  if (seen * pass.every < kFewestVisible) return {};
  return result;
}

void ImageMatcher::load(const std::pair<int, int>* begin, const std::pair<int, int>* end,
                        Loaded& loaded) const {
  Loaded needed;
  std::vector<int> missing;
  for (const auto* pair = begin; pair != end; ++pair) {
    for (const int frame : {pair->first, pair->second}) {
      const auto [place, is_new] = needed.try_emplace(frame);
      if (!is_new) continue;
      if (const auto old = loaded.find(frame); old != loaded.end()) {
        place->second = std::move(old->second);
      } else {
        missing.push_back(frame);
      }
    }
  }
  loaded.clear();
  for (const int frame : missing)
    needed[frame] =
        std::make_unique<const MatchedFrame>(input_, depth_, &images_, static_cast<std::size_t>(frame));
  loaded = std::move(needed);
}

Matches ImageMatcher::match(const Bundle& bundle, const std::vector<std::pair<int, int>>& pairs,
                            const MatchPass& pass, const std::vector<bool>& weak,
                            const Events& events) const {
  Matches all;
  Loaded loaded;
  const int count = static_cast<int>(pairs.size()), at_once = lean_                     ? 1
                                                              : are_many(usable_count_) ? kPairsOfManyAtOnce
                                                                                        : kPairsAtOnce;
  for (int first = 0; first < count; first += at_once) {
    events.check_stop();
    events.progress("adjustment", "pairs", first, count);
    const int block = std::min(at_once, count - first);
    const auto pass_of = [&](const std::pair<int, int>& pair) {
      MatchPass own = pass;
      if (weak[static_cast<std::size_t>(pair.first)] || weak[static_cast<std::size_t>(pair.second)]) {
        own.every = 1;
        own.by_depth = true;
        own.only = nullptr;
      }
      return own;
    };
    load(pairs.data() + first, pairs.data() + first + block, loaded);
    std::vector<Matches> found(2 * static_cast<std::size_t>(block));
    cv::parallel_for_({0, 2 * block}, [&](const cv::Range& range) {
      for (int i = range.start; i < range.end; ++i) {
        const auto& pair = pairs[static_cast<std::size_t>(first + i / 2)];
        const auto& [a, b] = pair;
        found[static_cast<std::size_t>(i)] = i % 2 == 0 ? match_one(bundle, loaded, a, b, pass_of(pair))
                                                        : match_one(bundle, loaded, b, a, pass_of(pair));
      }
    });
    for (std::size_t i = 0; i < found.size(); i += 2) {
      all.looked_for += found[i].looked_for + found[i + 1].looked_for;
      const std::size_t both = found[i].sightings.size() + found[i + 1].sightings.size();
      const int every = pass_of(pairs[static_cast<std::size_t>(first) + i / 2]).every;
      if (both * static_cast<std::size_t>(every) < kFewestMatches) continue;
      for (const std::size_t way : {i, i + 1})
        all.sightings.insert(all.sightings.end(), found[way].sightings.begin(), found[way].sightings.end());
    }
  }
  events.progress("adjustment", "pairs", count, count);
  std::ranges::stable_sort(all.sightings, {}, &Sighting::anchor);
  return all;
}

}  // namespace vggt
