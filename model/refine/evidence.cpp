#include "model/refine/evidence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/files/clones.h"
#include "model/refine/vectors.h"

namespace vggt {
namespace {

constexpr int kGroups = kMostGroups;
// The least z of a point that another frame sees, and what x and y are divided by at least.
constexpr float kLeastZ = 1e-3F, kLeastDivisor = 1e-4F;
constexpr float kLeastMove = 0.01F,
                kMostMove = 100;  // pixels that a point moves at least and at most, as a cue
static_assert(kMostDepths == kLanes);

/// Numbers of all depths; what is beyond the last depth means nothing.
using Depths = Floats;
/// And of all groups of features.
using Groups [[gnu::vector_size(kGroups * sizeof(float))]] = float;

/// Where a source sees a pixel at all depths.
struct Sight {
  Depths u, v, z, inside;
  float moves;  // the logarithm of the way over all depths, as a cue
};

/// Whether it is seen at any of them.
[[gnu::always_inline]] inline bool see(const RefinerTransfer& to, float ray_x, float ray_y,
                                       const Depths& depth, int64_t depths, Sight& sight) {
  float direction[3];
  for (std::size_t row = 0; row < 3; ++row)
    direction[row] = to.turn[3 * row] * ray_x + to.turn[3 * row + 1] * ray_y + to.turn[3 * row + 2];
  const Depths z = direction[2] * depth + to.shift[2], divisor = greater(z, all(kLeastDivisor)),
               x = (direction[0] * depth + to.shift[0]) / divisor,
               y = (direction[1] * depth + to.shift[1]) / divisor, r2 = x * x + y * y,
               bound = smaller(r2, all(to.most_r2)),
               factor = 1 + bound * (to.distortion[0] + bound * to.distortion[1]);
  sight.u = x * factor * to.fx + to.cx;
  sight.v = y * factor * to.fy + to.cy;
  sight.z = divisor;
  const Words inside = (z > kLeastZ) & (r2 <= to.most_r2) & (sight.u >= to.begin_x) &
                       (sight.u <= to.end_x - 1) & (sight.v >= to.begin_y) & (sight.v <= to.end_y - 1);
  sight.inside = inside != 0 ? all(1) : all(0);
  float any = 0;
  for (int64_t d = 0; d < depths; ++d) any += sight.inside[d];
  if (any == 0) return false;
  const float across = sight.u[depths - 1] - sight.u[0], along = sight.v[depths - 1] - sight.v[0];
  const float move = std::sqrt(across * across + along * along);
  // What lies behind the camera may be infinitely far off, or nowhere.
  sight.moves = std::log(move <= kMostMove ? std::max(move, kLeastMove) : kMostMove) / 4;
  return true;
}

[[gnu::always_inline]] inline Groups load(const float* values) {
  Groups result;
  std::memcpy(&result, values, sizeof(result));
  return result;
}

/// Places in a source's map of h×w blocks, which lie within a block of it: the blocks around them, their
/// shares, and the nearest.
struct Places {
  Words corners[4], nearest;
  Depths shares[4];
};

/// Where pixels lie among `blocks` blocks of `side` each in a row, in blocks; from -1 to `blocks`.
[[gnu::always_inline]] inline Depths in_blocks(const Depths& pixels, float side, int32_t blocks) {
  return smaller(greater((pixels + 0.5F) / side - 0.5F, all(-1)), all(static_cast<float>(blocks)));
}
/// The nearest of `blocks` blocks.
[[gnu::always_inline]] inline Words on_map(const Words& at, int32_t blocks) {
  const Words last = Words{} + (blocks - 1), first = at > 0 ? at : Words{};
  return first < last ? first : last;
}

/// Of pixels u, v of blocks of `side` × `side`. Places that lie elsewhere are brought to the map's rim.
[[gnu::always_inline]] inline Places places_of(const Depths& u, const Depths& v, float side, int64_t h,
                                               int64_t w) {
  const auto columns = static_cast<int32_t>(w), rows = static_cast<int32_t>(h);
  const Depths x = in_blocks(u, side, columns), y = in_blocks(v, side, rows), near_x = rounded(x),
               near_y = rounded(y), left = near_x > x ? near_x - 1 : near_x,
               above = near_y > y ? near_y - 1 : near_y;
  Places places;
  places.nearest = on_map(words_of(near_y), rows) * columns + on_map(words_of(near_x), columns);
  const Words column = words_of(left), row = words_of(above);
  for (int corner = 0; corner < 4; ++corner) {
    const Words at_x = column + corner % 2, at_y = row + corner / 2,
                is_there = (at_x >= 0) & (at_x < columns) & (at_y >= 0) & (at_y < rows);
    const Depths across = corner % 2 == 0 ? 1 - (x - left) : x - left,
                 down = corner / 2 == 0 ? 1 - (y - above) : y - above;
    places.corners[corner] = on_map(at_y, rows) * columns + on_map(at_x, columns);
    places.shares[corner] = is_there != 0 ? across * down : all(0);  // beyond the rim all is 0
  }
  return places;
}

/// How alike the features are at a place of the source's map, between its blocks, to `own`, by group.
[[gnu::always_inline]] inline Groups compare(const float* features, int64_t in_group, const Places& places,
                                             int64_t d, const float* own) {
  const float* corners[4];
  for (int corner = 0; corner < 4; ++corner)
    corners[corner] = features + places.corners[corner][d] * in_group * kGroups;
  Groups sums{};
  for (int64_t i = 0; i < in_group; ++i) {
    Groups seen{};
    for (int corner = 0; corner < 4; ++corner)
      seen += places.shares[corner][d] * load(corners[corner] + i * kGroups);
    sums += seen * load(own + i * kGroups);
  }
  return sums / static_cast<float>(in_group);
}

[[gnu::always_inline]] inline void put(const Depths& values, int64_t count, float* result) {
  for (int64_t d = 0; d < count; ++d) result[d] = values[d];
}

/// `count` rows of out = weight·in + bias; in [inputs].
template <int count>
[[gnu::always_inline]] inline void multiply_rows(const float* weight, const float* bias, const Depths* in,
                                                 int64_t inputs, Depths* out) {
  Depths sums[count];
  for (int o = 0; o < count; ++o) sums[o] = all(bias[o]);
  for (int64_t i = 0; i < inputs; ++i) {
    const Depths value = in[i];
    for (int o = 0; o < count; ++o) sums[o] += weight[o * inputs + i] * value;
  }
  for (int o = 0; o < count; ++o) out[o] = sums[o];
}

/// out = weight·in + bias; in [inputs], out [outputs].
[[gnu::always_inline]] inline void multiply(const float* weight, const float* bias, const Depths* in,
                                            int64_t inputs, Depths* out, int64_t outputs) {
  constexpr int kAtOnce = 8;
  int64_t o = 0;
  for (; o + kAtOnce <= outputs; o += kAtOnce)
    multiply_rows<kAtOnce>(weight + o * inputs, bias + o, in, inputs, out + o);
  for (; o < outputs; ++o) multiply_rows<1>(weight + o * inputs, bias + o, in, inputs, out + o);
}

}  // namespace

VGGT_CLONES void gather_evidence(const EvidenceLayers& layers, int64_t in_group, int64_t h, int64_t w,
                                 int64_t side, const RefinerMaps& own, const float* ray_x, const float* ray_y,
                                 const std::vector<EvidenceSource>& sources, int64_t most, int64_t first,
                                 int64_t end, float* result) {
  const int64_t depths = layers.depths, groups = layers.groups, inputs = groups + kRefinerCues,
                scores = layers.scores;
  const float block = static_cast<float>(side);
  Depths offsets{};
  for (int64_t d = 0; d < depths; ++d) offsets[d] = layers.offsets[d];
  for (int64_t point = first; point < end; ++point) {
    const Depths depth = exp_of(own.log_depth[point] + offsets);
    Depths weights{}, sums[kMostScores];
    std::fill_n(sums, scores, Depths{});
    for (const EvidenceSource& source : sources) {
      Sight sight;
      if (!see(source.transfer, ray_x[point], ray_y[point], depth, depths, sight)) continue;
      Depths cues[kGroups + kRefinerCues] = {}, there{}, inside{};
      const Places places = places_of(sight.u, sight.v, block, h, w);
      for (int64_t d = 0; d < depths; ++d) {
        if (sight.inside[d] == 0) continue;
        const float depth_there = source.maps.log_depth[places.nearest[d]];
        if (std::isnan(depth_there)) continue;
        there[d] = depth_there;
        const Groups alike =
            compare(source.maps.features, in_group, places, d, own.features + point * in_group * kGroups);
        for (int64_t g = 0; g < groups; ++g) cues[g][d] = alike[g];
        inside[d] = 1;
      }
      const Depths nearer = log_of(sight.z) - there, fine = nearer / 0.02F, coarse = nearer / 0.08F;
      cues[groups] = exp_of(-fine * fine) * inside;
      cues[groups + 1] = exp_of(-coarse * coarse) * inside;
      cues[groups + 2] = smaller(greater(nearer / 0.2F, all(-1)), all(1)) * inside;
      cues[groups + 3] = inside;
      cues[groups + 4] = sight.moves * inside;
      Depths hidden[kMostScores], said[kMostScores];
      multiply(layers.in_weight, layers.in_bias, cues, inputs, hidden, layers.hidden);
      for (int64_t i = 0; i < layers.hidden; ++i) hidden[i] = greater(hidden[i], all(0));
      multiply(layers.out_weight, layers.out_bias, hidden, layers.hidden, said, scores);
      const Depths weight = inside / (1 + exp_of(-said[0]));
      for (int64_t score = 1; score < scores; ++score) sums[score] += said[score] * weight;
      weights += weight;
    }
    float* const of_point = result + point * scores * depths;
    for (int64_t score = 1; score < scores; ++score)
      put(sums[score] / (weights + 0.1F), depths, of_point + (score - 1) * depths);
    put(weights / static_cast<float>(most), depths, of_point + (scores - 1) * depths);
  }
}

}  // namespace vggt
