#include "app/scene/voxel_choice.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>

#include "app/scene/mixed.h"
#include "app/scene/rank_search.h"

namespace vggt {
namespace {

/// The number of the cube that a point lies in; two cubes have one number once in 2^64 pairs. Never 0.
uint64_t cube_of(const Eigen::Vector3f& point, double side) {
  constexpr double kFarthest = 0x1p62;
  uint64_t number = 0;
  for (int i = 0; i < 3; ++i) {
    const double place = std::clamp(std::floor(double{point[i]} / side), -kFarthest, kFarthest);
    number = mixed(number ^ static_cast<uint64_t>(static_cast<int64_t>(place)));
  }
  return std::max<uint64_t>(1, number);
}

/// Sides from large to small, and how many cubes of each hold points.
class CubeCounts {
 public:
  CubeCounts(std::vector<double> sides, int64_t most) : sides_(std::move(sides)), most_(most) {
    constexpr int64_t kEnough = 1 << 16;  // cubes that are counted: the error is below half a per cent
    rate_ = static_cast<uint64_t>(std::max<int64_t>(1, most / kEnough));
    limit_ = 2 * static_cast<std::size_t>(most / static_cast<int64_t>(rate_)) + 1;
    counted_.resize(sides_.size());
  }

  void count(const SceneBuilder& builder) {
    std::mutex mutex;
    builder.for_each_frame_positions(
        [&](int, std::span<const Eigen::Vector3f> points, std::span<const float>) {
          std::vector<std::unordered_set<uint64_t>> found(sides_.size());
          for (std::size_t i = 0; i < sides_.size() && !full(i, mutex); ++i) count_side(i, points, found[i]);
          const std::lock_guard lock(mutex);
          for (std::size_t i = 0; i < sides_.size(); ++i) {
            if (counted_[i].size() <= limit_) counted_[i].merge(found[i]);
          }
        });
  }

  /// The first side with more cubes than `most`; the number of sides if there is none.
  std::size_t first_above() const {
    const auto above = std::ranges::find_if(
        counted_, [&](const auto& cubes) { return cubes.size() * rate_ > static_cast<std::size_t>(most_); });
    return static_cast<std::size_t>(above - counted_.begin());
  }
  double cubes(std::size_t i) const { return static_cast<double>(counted_[i].size() * rate_); }
  double side(std::size_t i) const { return sides_[i]; }
  std::size_t sides() const { return sides_.size(); }

 private:
  /// Whether there are surely too many, so that nobody needs to count on. Smaller sides then have more.
  bool full(std::size_t i, std::mutex& mutex) const {
    const std::lock_guard lock(mutex);
    return counted_[i].size() > limit_;
  }
  void count_side(std::size_t i, std::span<const Eigen::Vector3f> points,
                  std::unordered_set<uint64_t>& found) const {
    for (const Eigen::Vector3f& point : points) {
      const uint64_t cube = cube_of(point, sides_[i]);
      if (cube % rate_ == 0) found.insert(cube);
    }
  }

  std::vector<double> sides_;
  int64_t most_;
  uint64_t rate_ = 1;  // of so many cubes one is counted, as its number has it
  std::size_t limit_ = 0;
  std::vector<std::unordered_set<uint64_t>> counted_;
};

/// Sides from `first` on, each `ratio` times the one before.
std::vector<double> sides_from(double first, double ratio, int count) {
  std::vector<double> sides;
  for (int i = 0; i < count; ++i) sides.push_back(first * std::pow(ratio, i));
  return sides;
}

/// A side with about `most` cubes, and hardly more.
double find_side(const SceneBuilder& builder, double median_depth, int64_t most) {
  constexpr double kLargest = 64, kCoarse = 0.25;  // of the median depth
  constexpr int kCoarseSides = 12, kFineSides = 12;
  constexpr double kAim = 0.985;  // of `most`, for the estimate is off by some thousandths
  CubeCounts coarse(sides_from(kLargest * median_depth, kCoarse, kCoarseSides), most);
  coarse.count(builder);
  const std::size_t above = std::clamp<std::size_t>(coarse.first_above(), 1, coarse.sides() - 1);
  CubeCounts fine(sides_from(coarse.side(above - 1), std::pow(kCoarse, 1.0 / kFineSides), kFineSides + 1),
                  most);
  fine.count(builder);
  const std::size_t over = fine.first_above();
  if (over == 0 || over == fine.sides()) return fine.side(over == 0 ? 0 : over - 1);
  // Between two sides the logarithms lie on a line.
  const double low = std::log(std::max(1.0, fine.cubes(over - 1))), high = std::log(fine.cubes(over));
  const double share = (std::log(kAim * static_cast<double>(most)) - low) / std::max(1e-9, high - low);
  return fine.side(over - 1) * std::pow(fine.side(over) / fine.side(over - 1), std::clamp(share, 0.0, 1.0));
}

/// The most confident point of each cube, in a table that threads fill at once.
class CubeTable {
 public:
  explicit CubeTable(int64_t most)
      : most_(most),
        cells_(std::bit_ceil(static_cast<std::size_t>(most) + static_cast<std::size_t>(most) / 2)) {}

  /// Returns false where there are more cubes than `most`.
  bool add(uint64_t cube, float confidence, int64_t index) {
    const std::size_t last = cells_.size() - 1;
    for (std::size_t at = cube & last;; at = (at + 1) & last) {
      uint64_t there = cells_[at].cube.load(std::memory_order_relaxed);
      if (there == 0 && cells_[at].cube.compare_exchange_strong(there, cube)) {
        if (++used_ > most_) return false;
        there = cube;
      }
      if (there == cube) {
        raise(cells_[at].best, rank_of(confidence, index));
        return true;
      }
    }
  }

  template <class Take>
  void each_point(Take&& take) const {
    for (const Cell& cell : cells_) {
      if (cell.cube != 0) take(static_cast<int64_t>(kIndexMask - (cell.best & kIndexMask)));
    }
  }

 private:
  struct Cell {
    std::atomic<uint64_t> cube = 0, best = 0;
  };
  static constexpr int kIndexBits = 40;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;

  /// Greater for a more confident point, and for the first of those whose first 24 bits are equal.
  static uint64_t rank_of(float confidence, int64_t index) {
    const uint64_t sure = ordered_key(confidence) >> 8;
    return sure << kIndexBits | (kIndexMask - static_cast<uint64_t>(index));
  }
  static void raise(std::atomic<uint64_t>& best, uint64_t rank) {
    uint64_t old = best.load(std::memory_order_relaxed);
    while (old < rank && !best.compare_exchange_weak(old, rank)) {
    }
  }

  int64_t most_;
  std::atomic<int64_t> used_ = 0;
  std::vector<Cell> cells_;
};

/// The chosen points; nothing where there are more cubes than `most`.
std::optional<std::vector<bool>> choose(const SceneBuilder& builder, double side, int64_t most) {
  CubeTable table(most);
  std::atomic<bool> fits = true;
  builder.for_each_frame_positions(
      [&](int frame, std::span<const Eigen::Vector3f> points, std::span<const float> confidence) {
        const int64_t first = builder.first_points()[static_cast<std::size_t>(frame)];
        for (std::size_t i = 0; fits && i < points.size(); ++i) {
          if (!table.add(cube_of(points[i], side), confidence[i], first + static_cast<int64_t>(i)))
            fits = false;
        }
      });
  if (!fits) return std::nullopt;
  std::vector<bool> kept(static_cast<std::size_t>(builder.first_points().back()));
  table.each_point([&](int64_t index) { kept[static_cast<std::size_t>(index)] = true; });
  return kept;
}

}  // namespace

VoxelChoice::VoxelChoice(const SceneBuilder& builder, const BuiltScene& scene, int64_t most) {
  double larger = 1.02;
  const double unit = scene.median_depth > 0 ? scene.median_depth : 1;
  side_ = find_side(builder, unit, most);
  while (true) {
    if (auto kept = choose(builder, side_, most)) {
      kept_ = std::move(*kept);
      return;
    }
    side_ *= larger;
    larger *= larger;
  }
}

}  // namespace vggt
