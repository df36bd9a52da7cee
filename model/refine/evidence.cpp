#include "model/refine/evidence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/files/clones.h"

#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wpsabi"  // of vectors that functions hand on: all of these are inlined
#endif

namespace vggt {
namespace {

constexpr int kDepths = kMostDepths, kGroups = kMostGroups;

/// Numbers of all depths, of which the compiler makes the processor's vectors; what is beyond the last depth
/// means nothing.
using Depths [[gnu::vector_size(kDepths * sizeof(float))]] = float;
/// And of all groups of features.
using Groups [[gnu::vector_size(kGroups * sizeof(float))]] = float;
using Words [[gnu::vector_size(kDepths * sizeof(int32_t))]] = int32_t;

[[gnu::always_inline]] inline Depths all(float value) {
  return Depths{} + value;
}
[[gnu::always_inline]] inline Depths greater(Depths a, Depths b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline Depths smaller(Depths a, Depths b) {
  return a < b ? a : b;
}

// exp and log as polynomials, exact to some units in the last place.
[[gnu::always_inline]] inline Depths exp_of(Depths x) {
  constexpr float kRound = 12582912.F;  // 1.5·2²³: what is added to it loses its fraction
  x = smaller(greater(x, all(-87)), all(88));
  const Depths n = (x * 1.44269504F + kRound) - kRound, r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Depths p = all(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  return p * reinterpret_cast<Depths>((__builtin_convertvector(n, Words) + 127) << 23);
}

/// Of numbers above 0.
[[gnu::always_inline]] inline Depths log_of(Depths x) {
  const Words bits = reinterpret_cast<Words>(x),
              exponent = (bits - 0x3f3504f3) >> 23;  // so that the rest lies between √½ and √2
  const Depths r = reinterpret_cast<Depths>(bits - (exponent << 23)) - 1, square = r * r,
               n = __builtin_convertvector(exponent, Depths);
  Depths p = all(7.0376836292e-2F);
  p = p * r - 1.1514610310e-1F;
  p = p * r + 1.1676998740e-1F;
  p = p * r - 1.2420140846e-1F;
  p = p * r + 1.4249322787e-1F;
  p = p * r - 1.6668057665e-1F;
  p = p * r + 2.0000714765e-1F;
  p = p * r - 2.4999993993e-1F;
  p = p * r + 3.3333331174e-1F;
  return r + (r * square * p - 0.5F * square - n * 2.12194440e-4F) + n * 0.693359375F;
}

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

/// How alike the features are at a place of the source's map, between its blocks, to `own`, by group.
[[gnu::always_inline]] inline Groups compare(const float* features, int64_t in_group, int64_t h, int64_t w,
                                             float x, float y, const float* own) {
  const float left = std::floor(x), above = std::floor(y), right_share = x - left, below_share = y - above;
  const auto column = static_cast<int64_t>(left), row = static_cast<int64_t>(above);
  const float shares[4] = {(1 - right_share) * (1 - below_share), right_share * (1 - below_share),
                           (1 - right_share) * below_share, right_share * below_share};
  const float* corners[4];
  float weights[4];
  for (int corner = 0; corner < 4; ++corner) {
    const int64_t at_x = column + corner % 2, at_y = row + corner / 2;
    const bool is_there = at_x >= 0 && at_x < w && at_y >= 0 && at_y < h;  // beyond the rim all is 0
    weights[corner] = is_there ? shares[corner] : 0;
    corners[corner] = features + (is_there ? at_y * w + at_x : 0) * in_group * kGroups;
  }
  Groups sums{};
  for (int64_t i = 0; i < in_group; ++i) {
    Groups seen{};
    for (int corner = 0; corner < 4; ++corner) seen += weights[corner] * load(corners[corner] + i * kGroups);
    sums += seen * load(own + i * kGroups);
  }
  return sums / static_cast<float>(in_group);
}

/// out = weight·in + bias; in [inputs], out [outputs].
[[gnu::always_inline]] inline void multiply(const float* weight, const float* bias, const Depths* in,
                                            int64_t inputs, Depths* out, int64_t outputs) {
  for (int64_t o = 0; o < outputs; ++o) {
    Depths sum = all(bias[o]);
    for (int64_t i = 0; i < inputs; ++i) sum += weight[o * inputs + i] * in[i];
    out[o] = sum;
  }
}

}  // namespace

VGGT_CLONES void gather_evidence(const EvidenceLayers& layers, int64_t in_group, int64_t h, int64_t w,
                                 int64_t side, const RefinerMaps& own, const float* ray_x, const float* ray_y,
                                 const std::vector<EvidenceSource>& sources, int64_t most, int64_t first,
                                 int64_t end, float* result) {
  const int64_t depths = layers.depths, groups = layers.groups, inputs = groups + kRefinerCues,
                scores = layers.scores, points = h * w;
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
      for (int64_t d = 0; d < depths; ++d) {
        if (sight.inside[d] == 0) continue;
        const float x = (sight.u[d] + 0.5F) / block - 0.5F, y = (sight.v[d] + 0.5F) / block - 0.5F;
        const int64_t column = std::clamp<int64_t>(std::lrint(x), 0, w - 1),
                      row = std::clamp<int64_t>(std::lrint(y), 0, h - 1);
        const float depth_there = source.maps.log_depth[row * w + column];
        if (std::isnan(depth_there)) continue;
        there[d] = depth_there;
        const Groups alike =
            compare(source.maps.features, in_group, h, w, x, y, own.features + point * in_group * kGroups);
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
    for (int64_t d = 0; d < depths; ++d) {
      for (int64_t score = 1; score < scores; ++score)
        result[((score - 1) * depths + d) * points + point] = sums[score][d] / (weights[d] + 0.1F);
      result[((scores - 1) * depths + d) * points + point] = weights[d] / static_cast<float>(most);
    }
  }
}

}  // namespace vggt
