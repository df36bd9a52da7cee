#include "app/scene/voxel_choice.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <unordered_set>

#include "app/scene/for_each_frame.h"
#include "app/scene/mixed.h"
#include "app/scene/rank_search.h"

namespace vggt {
namespace {

using Place = std::array<int64_t, 3>;  // of a cube, counted along the axes

Place place_of(const Eigen::Vector3f& point, double side) {
  constexpr double kFarthest = 0x1p62;
  Place place{};
  for (int i = 0; i < 3; ++i) {
    const double at = std::clamp(double{point[i]} / side, -kFarthest, kFarthest);
    const auto towards_zero = static_cast<int64_t>(at);  // floor() would be a call
    place[static_cast<std::size_t>(i)] = towards_zero - (at < static_cast<double>(towards_zero) ? 1 : 0);
  }
  return place;
}

/// The number of a cube; two cubes have one number once in 2^64 pairs. Never 0.
uint64_t number_of_cube(const Place& place) {
  constexpr uint64_t kX = 0x9e3779b97f4a7c15, kY = 0xc2b2ae3d27d4eb4f, kZ = 0x165667b19e3779f9;
  const uint64_t sum = static_cast<uint64_t>(place[0]) * kX + static_cast<uint64_t>(place[1]) * kY +
                       static_cast<uint64_t>(place[2]) * kZ;
  return std::max<uint64_t>(1, mixed(sum));
}

uint64_t cube_of(const Eigen::Vector3f& point, double side) {
  return number_of_cube(place_of(point, side));
}

/// Counts the cubes that hold points, of several sides from large to small. Of many cubes some are counted,
/// by their numbers.
class CubeCounts {
 public:
  CubeCounts(std::size_t sides, int64_t most) : most_(static_cast<std::size_t>(most)), found_(sides) {
    constexpr uint64_t kEnough = 1 << 16;  // cubes that are counted: the error is below half a per cent
    rate_ = std::bit_floor(std::max<uint64_t>(1, static_cast<uint64_t>(most) / kEnough));
  }

  /// place(point, i): the point's cube of side i, for ascending i. Once a side has more cubes than `most`,
  /// the smaller ones are counted no further.
  template <class PlaceAt>
  void count(const SceneBuilder& builder, PlaceAt&& place) {
    builder.for_each_frame_positions(
        [&](int, std::span<const Eigen::Vector3f> points, std::span<const float>) {
          std::vector<std::vector<uint64_t>> own(std::min(first_above() + 1, found_.size()));
          for (const Eigen::Vector3f& point : points) {
            auto places = place(point);
            for (std::size_t i = 0; i < own.size(); ++i) {
              const uint64_t cube = number_of_cube(places(i));
              if ((cube & (rate_ - 1)) == 0 && (own[i].empty() || own[i].back() != cube))
                own[i].push_back(cube);
            }
          }
          for (std::size_t i = 0; i < own.size(); ++i) found_[i].add(own[i]);
        });
  }

  /// The first side with more cubes than `most`; the number of sides if there is none.
  std::size_t first_above() const {
    const auto above =
        std::ranges::find_if(found_, [&](const Side& side) { return side.size * rate_ > most_; });
    return static_cast<std::size_t>(above - found_.begin());
  }
  /// The logarithm of the number of cubes.
  double log_cubes(std::size_t i) const {
    return std::log(static_cast<double>(std::max<uint64_t>(1, found_[i].size * rate_)));
  }

 private:
  struct Side {
    static constexpr int kShardBits = 5;
    struct Shard {  // the cubes whose numbers begin with the same bits
      std::mutex mutex;
      std::unordered_set<uint64_t> cubes;
    };
    std::array<Shard, 1 << kShardBits> shards;  // or threads would wait for each other
    std::atomic<std::size_t> size = 0;

    void add(std::vector<uint64_t>& some) {
      std::ranges::sort(some);
      const auto end = std::ranges::unique(some).begin();
      for (auto first = some.begin(); first != end;) {
        const uint64_t shard = *first >> (64 - kShardBits);
        const auto last =
            std::find_if(first, end, [&](uint64_t cube) { return cube >> (64 - kShardBits) != shard; });
        auto& [mutex, cubes] = shards[shard];
        const std::lock_guard lock(mutex);
        const std::size_t before = cubes.size();
        cubes.insert(first, last);
        size += cubes.size() - before;
        first = last;
      }
    }
  };

  std::size_t most_;
  uint64_t rate_ = 1;  // of so many cubes one is counted
  std::vector<Side> found_;
};

/// Where a line through two counts reaches `aim` (a logarithm), as a share of the way from the first.
double share_of_way(double from, double to, double aim) {
  return to > from ? std::clamp((aim - from) / (to - from), 0.0, 1.0) : 0;
}

/// A first guess: among sides that are halved again and again.
double guess_side(const SceneBuilder& builder, double median_depth, int64_t most) {
  constexpr int kHalvings = 18;
  constexpr double kLargest = 4;  // of the median depth
  const double largest = kLargest * median_depth, smallest = std::ldexp(largest, -kHalvings);
  CubeCounts counts(kHalvings + 1, most);
  counts.count(builder, [&](const Eigen::Vector3f& point) {
    return [finest = place_of(point, smallest)](std::size_t i) {
      const int shift = kHalvings - static_cast<int>(i);
      return Place{finest[0] >> shift, finest[1] >> shift, finest[2] >> shift};
    };
  });
  const std::size_t over = counts.first_above();
  if (over == 0) return largest;
  if (over > kHalvings) return smallest;
  const double share =
      share_of_way(counts.log_cubes(over - 1), counts.log_cubes(over), std::log(static_cast<double>(most)));
  return std::ldexp(largest, -static_cast<int>(over) + 1) * std::exp2(-share);
}

/// A side with about `most` cubes, and hardly more.
double find_side(const SceneBuilder& builder, double median_depth, int64_t most) {
  constexpr double kStep = 1.08;
  constexpr std::size_t kSteps = 5;
  constexpr double kAim = 0.985;  // of `most`, for counts are off by some thousandths
  const double guess = guess_side(builder, median_depth, most);
  std::vector<double> sides;
  for (std::size_t i = 0; i < kSteps; ++i)
    sides.push_back(guess * std::pow(kStep, 2 - static_cast<double>(i)));
  CubeCounts counts(kSteps, most);
  counts.count(builder, [&](const Eigen::Vector3f& point) {
    return [&](std::size_t i) { return place_of(point, sides[i]); };
  });
  const std::size_t over = counts.first_above();
  if (over == 0 || over == kSteps) return sides[over == 0 ? 0 : kSteps - 1];
  const double share = share_of_way(counts.log_cubes(over - 1), counts.log_cubes(over),
                                    std::log(kAim * static_cast<double>(most)));
  return sides[over - 1] * std::pow(kStep, -share);
}

/// The most confident point of each cube, in a table that threads fill at once.
class CubeTable {
 public:
  explicit CubeTable(int64_t most)
      : most_(most),
        size_(std::bit_ceil(static_cast<std::size_t>(most) + static_cast<std::size_t>(most) / 2 +
                            kMostThreads * kAhead)),
        cells_(static_cast<Cell*>(std::calloc(size_, sizeof(Cell))),
               std::free) {  // pages come as they are used
    if (!cells_) throw std::bad_alloc();
    constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
    const auto begin =
                   (reinterpret_cast<std::uintptr_t>(cells_.get()) + kHugePage - 1) / kHugePage * kHugePage,
               end = reinterpret_cast<std::uintptr_t>(cells_.get() + size_) / kHugePage * kHugePage;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // fewer misses
  }

  /// Adds the points from index `first` on. Returns false where there are more cubes than `most`.
  bool add(std::span<const Eigen::Vector3f> points, std::span<const float> confidence, int64_t first,
           double side) {
    std::array<uint64_t, kAhead> cubes;
    for (std::size_t begin = 0; begin < points.size(); begin += kAhead) {
      const std::size_t count = std::min(kAhead, points.size() - begin);
      for (std::size_t i = 0; i < count; ++i) {
        cubes[i] = cube_of(points[begin + i], side);
        __builtin_prefetch(&cells_[cubes[i] & (size_ - 1)], 1);
      }
      int64_t fresh = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const uint64_t rank = rank_of(confidence[begin + i], first + static_cast<int64_t>(begin + i));
        fresh += add(cubes[i], rank) ? 1 : 0;
      }
      // Counted together: all threads share the sum.
      if (fresh > 0 && (used_ += fresh) > most_) return false;
    }
    return true;
  }

  /// A bit for each of `points` points, set for those of the table.
  std::vector<uint64_t> chosen(int64_t points, const FrameWork& work) const {
    constexpr int kParts = 256;
    std::vector<uint64_t> bits(static_cast<std::size_t>(points + 63) / 64);
    for_each_frame(work, kParts, [&](int part, int) {
      const std::size_t begin = size_ * static_cast<std::size_t>(part) / kParts,
                        end = size_ * static_cast<std::size_t>(part + 1) / kParts;
      for (std::size_t at = begin; at < end; ++at) {
        if (cells_[at].cube == 0) continue;
        const uint64_t index = kIndexMask - (cells_[at].best & kIndexMask);
        std::atomic_ref(bits[index / 64]).fetch_or(uint64_t{1} << index % 64, std::memory_order_relaxed);
      }
    });
    return bits;
  }

 private:
  struct Cell {
    uint64_t cube, best;
  };
  static constexpr std::size_t kAhead = 32;  // cells on their way from memory
  static constexpr std::size_t kMostThreads = 1024;
  static constexpr int kIndexBits = 40;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;

  /// Returns whether the cube is new.
  bool add(uint64_t cube, uint64_t rank) {
    for (std::size_t at = cube & (size_ - 1);; at = (at + 1) & (size_ - 1)) {
      const std::atomic_ref owner(cells_[at].cube);
      uint64_t there = owner.load(std::memory_order_relaxed);
      const bool fresh = there == 0 && owner.compare_exchange_strong(there, cube);
      if (fresh || there == cube) {
        raise(std::atomic_ref(cells_[at].best), rank);
        return fresh;
      }
    }
  }

  /// Greater for a more confident point, and for the first of those whose first 24 bits are equal.
  static uint64_t rank_of(float confidence, int64_t index) {
    const uint64_t sure = ordered_key(confidence) >> 8;
    return sure << kIndexBits | (kIndexMask - static_cast<uint64_t>(index));
  }
  static void raise(const std::atomic_ref<uint64_t>& best, uint64_t rank) {
    uint64_t old = best.load(std::memory_order_relaxed);
    while (old < rank && !best.compare_exchange_weak(old, rank)) {
    }
  }

  int64_t most_;
  std::atomic<int64_t> used_ = 0;
  std::size_t size_;  // a power of two
  std::unique_ptr<Cell[], decltype(&std::free)> cells_;
};

/// The chosen points; nothing where there are more cubes than `most`.
std::optional<std::vector<uint64_t>> choose(const SceneBuilder& builder, double side, int64_t most) {
  CubeTable table(most);
  std::atomic<bool> fits = true;
  builder.for_each_frame_positions(
      [&](int frame, std::span<const Eigen::Vector3f> points, std::span<const float> confidence) {
        const int64_t first = builder.first_points()[static_cast<std::size_t>(frame)];
        if (fits && !table.add(points, confidence, first, side)) fits = false;
      });
  if (!fits) return std::nullopt;
  return table.chosen(builder.first_points().back(), builder.work());
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
