#include "app/health/frame_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "app/scene/linked_frames.h"
#include "app/scene/pixel_transfer.h"

namespace vggt {
namespace {

constexpr float kConfirmed = 0.05F;  // depths that differ by less agree
constexpr float kRoughly = 0.15F;    // depths that differ by more belong to different things
constexpr std::size_t kFewest = 30;  // cells that a correlation needs
constexpr double kStrong = 0.12;     // a link that connects, see tests/BENCHMARKS.md
constexpr int kEnoughTracks = 12;    // the same, by tracks
constexpr std::size_t kPartners = 8;
constexpr int kNeighbours = 2;  // in the sequence, on each side

bool is_known(float depth) {
  return std::isfinite(depth) && depth > 0;
}

/// One frame seen from another, cell by cell.
class PairView {
 public:
  PairView(const SmallFrames& small, const std::vector<Camera>& cameras, int from, int to)
      : small_(small),
        from_(small.frames[static_cast<std::size_t>(from)]),
        to_(small.frames[static_cast<std::size_t>(to)]),
        transfer_(cameras[static_cast<std::size_t>(from)], cameras[static_cast<std::size_t>(to)]) {}

  /// Where a cell of the one lies in the other, in cells, and how far its depth is from what the other has
  /// there, as a share of it; nothing where the other does not see it.
  struct Seen {
    float x = 0, y = 0, off = 0;
  };
  std::optional<Seen> operator()(int column, int row) const {
    const float depth = from_.depth[static_cast<std::size_t>(row * small_.width + column)];
    if (!is_known(depth)) return std::nullopt;
    const Eigen::Vector3f at = transfer_(small_.pixel(column), small_.pixel(row), depth);
    if (!(at.z() > 0)) return std::nullopt;
    const float x = small_.place(at.x() / at.z()), y = small_.place(at.y() / at.z());
    const auto last_column = static_cast<float>(small_.width - 1),
               last_row = static_cast<float>(small_.height - 1);
    if (!(x >= 0 && y >= 0 && x <= last_column && y <= last_row)) return std::nullopt;
    const auto cell = static_cast<std::size_t>(std::lround(y)) * static_cast<std::size_t>(small_.width) +
                      static_cast<std::size_t>(std::lround(x));
    const float there = to_.depth[cell];
    if (!is_known(there)) return std::nullopt;
    return Seen{x, y, std::abs(at.z() - there) / there};
  }

 private:
  const SmallFrames& small_;
  const SmallFrame &from_, &to_;
  PixelTransfer transfer_;
};

/// What one direction of a pair says.
struct PairFit {
  double strength = 0;
  std::vector<uint8_t> seen, confirmed;  // of each cell
};

PairFit fit(const SmallFrames& small, const std::vector<Camera>& cameras, int from, int to) {
  const PairView view(small, cameras, from, to);
  const SmallFrame& here = small.frames[static_cast<std::size_t>(from)];
  const SmallFrame& there = small.frames[static_cast<std::size_t>(to)];
  PairFit result;
  result.seen.resize(here.depth.size());
  result.confirmed.resize(here.depth.size());
  double ab = 0, aa = 0, bb = 0;
  std::size_t near = 0, known = 0;
  for (int row = 0; row < small.height; ++row) {
    for (int column = 0; column < small.width; ++column) {
      const auto cell = static_cast<std::size_t>(row * small.width + column);
      known += is_known(here.depth[cell]);
      const auto seen = view(column, row);
      if (!seen) continue;
      result.seen[cell] = 1;
      result.confirmed[cell] = seen->off <= kConfirmed;
      if (seen->off > kRoughly) continue;
      const double a = here.detail[cell],
                   b = interpolated(there.detail.data(), small.height, small.width, seen->x, seen->y);
      ab += a * b;
      aa += a * a;
      bb += b * b;
      ++near;
    }
  }
  if (near < kFewest || !(aa > 0) || !(bb > 0)) return result;
  // Where little of a frame has depth, as of one with sky, the little counts.
  const double share = static_cast<double>(near) / static_cast<double>(std::max<std::size_t>(known, 1));
  result.strength = share * std::max(0.0, ab / std::sqrt(aa * bb));
  return result;
}

/// The frames that see most of what a frame sees, by a few samples.
std::vector<int> partners(const SmallFrames& small, const std::vector<Camera>& cameras, int frame) {
  const int frames = static_cast<int>(cameras.size());
  const int side = frames <= 300 ? 7 : frames <= 1200 ? 5 : 4;
  std::vector<std::pair<int, int>> found;  // minus the samples seen, frame
  for (int other = 0; other < frames; ++other) {
    if (other == frame || !cameras[static_cast<std::size_t>(other)].valid) continue;
    const PairView view(small, cameras, frame, other);
    int count = 0;
    for (int i = 0; i < side * side; ++i) {
      const auto seen = view((2 * (i % side) + 1) * small.width / (2 * side),
                             (2 * (i / side) + 1) * small.height / (2 * side));
      count += seen && seen->off <= kRoughly;
    }
    if (count > 0) found.emplace_back(-count, other);
  }
  const auto count = std::min(found.size(), kPartners);
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<int> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(found[i].second);
  for (int step = -kNeighbours; step <= kNeighbours; ++step) {
    const int other = frame + step;
    if (step != 0 && other >= 0 && other < frames && cameras[static_cast<std::size_t>(other)].valid)
      chosen.push_back(other);
  }
  return chosen;
}

/// The angle between two views of what lies in the middle of the first.
double typical_angle(const SmallFrames& small, const std::vector<Camera>& cameras, int a, int b) {
  const Camera& camera = cameras[static_cast<std::size_t>(a)];
  const std::vector<float>& depth = small.frames[static_cast<std::size_t>(a)].depth;
  std::vector<float> known;
  std::ranges::copy_if(depth, std::back_inserter(known), is_known);
  if (known.empty()) return 0;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::ranges::nth_element(known, middle);
  const Eigen::Vector3d point =
      camera.cam_from_world.inverse() * Eigen::Vector3d(0, 0, static_cast<double>(*middle));
  const Eigen::Vector3d here = (point - camera.center()).normalized(),
                        there = (point - cameras[static_cast<std::size_t>(b)].center()).normalized();
  return std::acos(std::clamp(here.dot(there), -1.0, 1.0));
}

using Pairs = std::map<std::pair<int, int>, FrameLink>;

void count_tracks(const std::vector<Track>& tracks, std::size_t frames, Pairs& pairs) {
  constexpr std::size_t kMost = 4000;  // frames: a table of their pairs takes 64 MB
  if (tracks.empty() || frames > kMost) return;
  std::vector<int> counts(frames * frames);
  for (const Track& track : tracks) {
    for (std::size_t i = 0; i < track.observations.size(); ++i) {
      for (std::size_t j = i + 1; j < track.observations.size(); ++j) {
        const auto [a, b] = std::minmax(track.observations[i].frame, track.observations[j].frame);
        ++counts[static_cast<std::size_t>(a) * frames + static_cast<std::size_t>(b)];
      }
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int a = static_cast<int>(i / frames), b = static_cast<int>(i % frames);
    if (counts[i] > 0) pairs[{a, b}] = {a, b, 0, counts[i], 0};
  }
}

}  // namespace

LinkedFrames link_frames(const SmallFrames& small, const std::vector<Camera>& cameras,
                         const std::vector<Track>& tracks, const FrameWork& work) {
  const int frames = static_cast<int>(cameras.size());
  LinkedFrames result;
  Pairs pairs;
  count_tracks(tracks, cameras.size(), pairs);
  const bool has_depth = !small.frames.empty() && !small.frames.front().depth.empty();
  if (has_depth && small.width > 1 && small.height > 1) {
    result.support.resize(cameras.size());
    std::vector<std::vector<FrameLink>> found(cameras.size());
    for_each_frame(work, frames, [&](int frame, int) {
      const auto f = static_cast<std::size_t>(frame);
      if (!cameras[f].valid) return;
      std::vector<uint8_t> seen(small.frames[f].depth.size()), confirmed(seen.size());
      std::size_t known = 0;
      for (const int other : partners(small, cameras, frame)) {
        const PairFit here = fit(small, cameras, frame, other);
        const auto [a, b] = std::minmax(frame, other);
        found[f].push_back({a, b, here.strength, 0, typical_angle(small, cameras, frame, other)});
        for (std::size_t i = 0; i < seen.size(); ++i) {
          seen[i] |= here.seen[i];
          confirmed[i] |= here.confirmed[i];
        }
      }
      for (const float depth : small.frames[f].depth) known += is_known(depth);
      const auto count = [](const std::vector<uint8_t>& cells) {
        return static_cast<double>(std::accumulate(cells.begin(), cells.end(), std::size_t{0}));
      };
      FrameSupport& support = result.support[f];
      support.overlap = known ? count(seen) / static_cast<double>(known) : 0;
      support.agreement = count(seen) > 0 ? count(confirmed) / count(seen) : 0;
    });
    for (const auto& links : found) {
      for (const FrameLink& link : links) {
        FrameLink& kept = pairs[{link.a, link.b}];
        kept = {link.a, link.b, std::max(kept.strength, link.strength), kept.tracks,
                std::max(kept.angle_rad, link.angle_rad)};
      }
    }
  }
  for (const auto& [pair, link] : pairs) result.links.push_back(link);
  return result;
}

std::vector<int> connected_parts(const std::vector<FrameLink>& links, const std::vector<Camera>& cameras) {
  std::vector<std::pair<int, int>> pairs;
  for (const FrameLink& link : links) {
    if (link.strength >= kStrong || link.tracks >= kEnoughTracks) pairs.emplace_back(link.a, link.b);
  }
  const std::vector<int> root = first_linked(cameras.size(), pairs);
  std::map<int, int> sizes;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (cameras[i].valid) ++sizes[root[i]];
  }
  std::vector<std::pair<int, int>> order;  // minus the size, root
  for (const auto& [first, size] : sizes) order.emplace_back(-size, first);
  std::ranges::sort(order);
  std::map<int, int> numbers;
  for (std::size_t i = 0; i < order.size(); ++i) numbers[order[i].second] = static_cast<int>(i);
  std::vector<int> parts;
  for (std::size_t i = 0; i < cameras.size(); ++i)
    parts.push_back(cameras[i].valid ? numbers.at(root[i]) : -1);
  return parts;
}

}  // namespace vggt
