#include "model/refine/mix_pixels.h"

#include <algorithm>
#include <cstring>

#include "io/files/clones.h"
#include "model/refine/vectors.h"

namespace vggt {
namespace {

constexpr int64_t kSide = 4;
static_assert(kSide * kSide == kLanes);

[[gnu::always_inline]] inline Floats load(const float* values) {
  Floats result;
  std::memcpy(&result, values, sizeof(result));
  return result;
}

/// Depths, and the logarithms of their shares.
struct Choices {
  Floats depths[kChoices], shares[kChoices];
  int64_t count = 0;

  [[gnu::always_inline]] void add(const float* share, const Floats& depth) {
    depths[count] = depth;
    shares[count++] = load(share);
  }
  [[gnu::always_inline]] Floats mixed() const {
    Floats most = shares[0], sum{}, total{};
    for (int64_t i = 1; i < count; ++i) most = greater(most, shares[i]);
    for (int64_t i = 0; i < count; ++i) {
      const Floats share = exp_of(shares[i] - most);
      sum += share * depths[i];
      total += share;
    }
    return sum / total;
  }
};

}  // namespace

VGGT_CLONES void mix_pixels(const PixelMix& mix, int64_t first, int64_t end, float* result) {
  for (int64_t block = first; block < end; ++block) {
    const int64_t row = block / mix.w, column = block % mix.w;
    const float* const said = mix.said + block * kChoices * kLanes;
    Choices choices;
    for (int64_t choice = 0; choice < kNeighbours; ++choice) {
      const int64_t above = std::clamp<int64_t>(row + choice / 3 - 1, 0, mix.h - 1),
                    beside = std::clamp<int64_t>(column + choice % 3 - 1, 0, mix.w - 1),
                    neighbour = above * mix.w + beside;
      if (!mix.none[neighbour]) choices.add(said + choice * kLanes, all(mix.blocks[neighbour]));
    }
    choices.add(said + kNeighbours * kLanes, load(mix.own + block * kLanes) + mix.change[block]);
    if (!mix.none[block]) {
      for (int64_t i = 0; i < kPixelExtremes; ++i)
        choices.add(said + (kNeighbours + 1 + i) * kLanes, all(mix.extremes[i * mix.h * mix.w + block]));
    }
    const Floats found = choices.mixed();
    for (int64_t y = 0; y < kSide; ++y)
      std::memcpy(result + ((row * kSide + y) * mix.w + column) * kSide,
                  reinterpret_cast<const char*>(&found) + static_cast<std::size_t>(y * kSide) * sizeof(float),
                  kSide * sizeof(float));
  }
}

}  // namespace vggt
