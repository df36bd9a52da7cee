#include "model/layers/winograd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <ATen/Parallel.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/files/clones.h"
#include "model/layers/lanes.h"

// Note [Winograd's points]
//
// A tile of 4×4 pixels depends on 6×6 pixels d of the map. With the filter g (3×3) it is
//   Aᵀ·((G·g·Gᵀ) ∘ (Bᵀ·d·B))·A,
// where the input's channels are summed up between ∘ and A: 36 products of matrices, tiles by channels. Bᵀ, G
// and A evaluate polynomials at 0, ±a, ±b and infinity. With a = 3/4 and b = 5/4, whose powers fp32 holds
// exactly, results are off by 4e-7 of their root mean square (of 64 to 256 channels) and at most by 3e-6,
// beside 2 to 3e-7 and 2 to 5e-6 of LibTorch's windows. With 1 and 2, the usual points, they are off by more
// than twice as much.

namespace vggt {
namespace {

constexpr int64_t kOut = 4, kIn = 6, kPlaces = kIn * kIn, kLanes = 16;
constexpr int64_t kTiles = 12;  // a thread's at a time
constexpr int64_t kFewestChannels = 16, kFewestPixels = 64;
// Pairs of an input's and an output's channel, whose filters are brought to the points in each call: at most
// so many for a pixel of a map, as that takes time, and at most so many in all, as each takes 144 bytes.
constexpr int64_t kMostPairsOfPixel = 128, kMostPairs = 256 * 256;
constexpr float kA = 0.75F, kB = 1.25F, kA2 = kA * kA, kB2 = kB * kB;

VGGT_AVX512 inline __m512 all(float value) {
  return _mm512_set1_ps(value);
}

/// Bᵀ·d. d, result: 6 numbers each, of 16 channels; result's lie `step` apart.
VGGT_AVX512 inline void transform_input(const __m512* d, __m512* result, int64_t step) {
  const __m512 even_b = _mm512_fnmadd_ps(all(kB2), d[2], d[4]),
               odd_b = _mm512_fnmadd_ps(all(kB2), d[1], d[3]),
               even_a = _mm512_fnmadd_ps(all(kA2), d[2], d[4]),
               odd_a = _mm512_fnmadd_ps(all(kA2), d[1], d[3]);
  const __m512 sum = all(-kA2 - kB2), product = all(kA2 * kB2);
  result[0] = _mm512_fmadd_ps(product, d[0], _mm512_fmadd_ps(sum, d[2], d[4]));
  result[step] = _mm512_fmadd_ps(all(kA), odd_b, even_b);
  result[2 * step] = _mm512_fnmadd_ps(all(kA), odd_b, even_b);
  result[3 * step] = _mm512_fmadd_ps(all(kB), odd_a, even_a);
  result[4 * step] = _mm512_fnmadd_ps(all(kB), odd_a, even_a);
  result[5 * step] = _mm512_fmadd_ps(product, d[1], _mm512_fmadd_ps(sum, d[3], d[5]));
}

/// G·g. g: 3 numbers; result: 6, `step` apart.
VGGT_AVX512 inline void transform_filter(const __m512* g, __m512* result, int64_t step) {
  constexpr float kOfA = 1 / (2 * kA2 * (kA2 - kB2)), kOfB = 1 / (2 * kB2 * (kB2 - kA2));
  const __m512 even_a = _mm512_mul_ps(all(kOfA), _mm512_fmadd_ps(all(kA2), g[2], g[0])),
               even_b = _mm512_mul_ps(all(kOfB), _mm512_fmadd_ps(all(kB2), g[2], g[0]));
  result[0] = _mm512_mul_ps(all(1 / (kA2 * kB2)), g[0]);
  result[step] = _mm512_fmadd_ps(all(kOfA * kA), g[1], even_a);
  result[2 * step] = _mm512_fnmadd_ps(all(kOfA * kA), g[1], even_a);
  result[3 * step] = _mm512_fmadd_ps(all(kOfB * kB), g[1], even_b);
  result[4 * step] = _mm512_fnmadd_ps(all(kOfB * kB), g[1], even_b);
  result[5 * step] = g[2];
}

/// Aᵀ·m. m: 6 numbers; result: 4, `step` apart.
VGGT_AVX512 inline void transform_output(const __m512* m, __m512* result, int64_t step) {
  const __m512 even_a = _mm512_add_ps(m[1], m[2]), odd_a = _mm512_sub_ps(m[1], m[2]),
               even_b = _mm512_add_ps(m[3], m[4]), odd_b = _mm512_sub_ps(m[3], m[4]);
  result[0] = _mm512_add_ps(m[0], _mm512_add_ps(even_a, even_b));
  result[step] = _mm512_fmadd_ps(all(kB), odd_b, _mm512_mul_ps(all(kA), odd_a));
  result[2 * step] = _mm512_fmadd_ps(all(kB2), even_b, _mm512_mul_ps(all(kA2), even_a));
  result[3 * step] = _mm512_fmadd_ps(all(kB2 * kB), odd_b, _mm512_fmadd_ps(all(kA2 * kA), odd_a, m[5]));
}

/// A convolution's sizes, and its filters at the points.
struct Filters {
  int64_t in, out, vectors;  // channels; vectors that out's fill
  at::Tensor memory;         // [36][groups of up to 4 vectors][in][the group's channels]

  const float* at(int64_t place, int64_t first_vector) const {
    return memory.const_data_ptr<float>() + (place * vectors + first_vector) * kLanes * in;
  }
};
constexpr int64_t kGroup = 4;  // vectors of output channels that a product takes at once

/// Of some of the input's channels. weight: [out][3][3][in].
VGGT_AVX512 void transform_filters(const float* weight, int64_t begin, int64_t end, const Filters& filters,
                                   float* result) {
  const auto in = static_cast<int>(filters.in);
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                outputs = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(9 * in));
  for (int64_t v = 0; v < filters.vectors; ++v) {
    const __mmask16 mask = lanes_of(filters.out - v * kLanes);
    const int64_t first = v / kGroup * kGroup, width = std::min(kGroup, filters.vectors - first) * kLanes;
    for (int64_t channel = begin; channel < end; ++channel) {
      const float* const from = weight + v * kLanes * 9 * filters.in + channel;
      __m512 half[3][kIn];  // [column][point]
      for (int64_t column = 0; column < 3; ++column) {
        __m512 g[3];
        for (int64_t row = 0; row < 3; ++row)
          g[row] = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, outputs,
                                            from + (row * 3 + column) * filters.in, sizeof(float));
        transform_filter(g, half[column], 1);
      }
      for (int64_t row = 0; row < kIn; ++row) {
        const __m512 g[3] = {half[0][row], half[1][row], half[2][row]};
        __m512 points[kIn];
        transform_filter(g, points, 1);
        for (int64_t column = 0; column < kIn; ++column)
          _mm512_storeu_ps(result + ((row * kIn + column) * filters.vectors + first) * kLanes * filters.in +
                               channel * width + (v - first) * kLanes,
                           points[column]);
      }
    }
  }
}

Filters filters_of(const at::Tensor& weight) {
  constexpr int64_t kGrain = 8;  // channels
  const int64_t out = weight.size(0), in = weight.size(1), vectors = (out + kLanes - 1) / kLanes;
  const at::Tensor rows = weight.contiguous(at::MemoryFormat::ChannelsLast);
  Filters filters{in, out, vectors, at::empty({kPlaces * in * vectors * kLanes}, weight.options())};
  const float* const from = rows.const_data_ptr<float>();
  float* const to = filters.memory.mutable_data_ptr<float>();
  at::parallel_for(0, in, kGrain,
                   [&](int64_t begin, int64_t end) { transform_filters(from, begin, end, filters, to); });
  return filters;
}

/// Rows [kRows] `in` apart, of so many channels, times filters [channels][kVectors·16] -> result [kRows],
/// rows `stride` apart; added to what is there where `adds`.
template <int kRows, int kVectors>
VGGT_AVX512 void multiply(const float* rows, int64_t in, const float* filters, int64_t channels, bool adds,
                          float* result, int64_t stride) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (int64_t channel = 0; channel < channels; ++channel) {
    __m512 filter[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      filter[v] = _mm512_loadu_ps(filters + (channel * kVectors + v) * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512 number = all(rows[r * in + channel]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ps(number, filter[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = result + r * stride + v * kLanes;
      _mm512_storeu_ps(to, adds ? _mm512_add_ps(sums[r][v], _mm512_loadu_ps(to)) : sums[r][v]);
    }
  }
}

/// Of kTiles rows. Sums start afresh every kSumRun channels: they round less.
template <int kRows, int kVectors>
void multiply_all(const float* rows, const float* filters, int64_t in, float* result, int64_t stride) {
  constexpr int64_t kSumRun = 32;
  for (int64_t channel = 0; channel < in; channel += kSumRun) {
    for (int64_t first = 0; first < kTiles; first += kRows)
      multiply<kRows, kVectors>(rows + first * in + channel, in, filters + channel * kVectors * kLanes,
                                std::min(kSumRun, in - channel), channel > 0, result + first * stride,
                                stride);
  }
}

/// A frame's maps, channels last.
struct Frame {
  int64_t rows, columns;
  const float *x, *bias;  // [rows][columns][in]; [vectors·16]
  float* y;               // [rows][columns][out]

  int64_t tile_columns() const { return (columns + kOut - 1) / kOut; }
  int64_t tiles() const { return (rows + kOut - 1) / kOut * tile_columns(); }
};

/// What a thread works on: kTiles tiles of a frame.
class Tiles {
 public:
  explicit Tiles(const Filters& filters)
      : filters_(filters),
        nothing_(static_cast<std::size_t>(filters.in)),
        points_(static_cast<std::size_t>(kPlaces * kTiles * filters.in)),
        products_(static_cast<std::size_t>(kPlaces * kTiles * filters.vectors * kLanes)) {}

  void convolve(const Frame& frame, int64_t first) {
    const int64_t count = std::min(kTiles, frame.tiles() - first), in = filters_.in;
    for (int64_t tile = 0; tile < count; ++tile) read(frame, first + tile, points_.data() + tile * in);
    for (int64_t place = 0; place < kPlaces; ++place) {
      for (int64_t v = 0; v < filters_.vectors; v += kGroup) multiply_group(place, v);
    }
    for (int64_t tile = 0; tile < count; ++tile)
      write(frame, first + tile, products_.data() + tile * filters_.vectors * kLanes);
  }

 private:
  void multiply_group(int64_t place, int64_t v) {
    const int64_t stride = filters_.vectors * kLanes;
    const float* const rows = points_.data() + place * kTiles * filters_.in;
    const float* const filter = filters_.at(place, v);
    float* const result = products_.data() + place * kTiles * stride + v * kLanes;
    switch (std::min(kGroup, filters_.vectors - v)) {
      case 1:
        return multiply_all<12, 1>(rows, filter, filters_.in, result, stride);
      case 2:
        return multiply_all<12, 2>(rows, filter, filters_.in, result, stride);
      case 3:
        return multiply_all<6, 3>(rows, filter, filters_.in, result, stride);
      default:
        return multiply_all<6, 4>(rows, filter, filters_.in, result, stride);
    }
  }

  /// A tile's pixels at the points: result [36][kTiles·in].
  VGGT_AVX512 void read(const Frame& frame, int64_t tile, float* result) {
    const int64_t in = filters_.in, top = tile / frame.tile_columns() * kOut - 1,
                  left = tile % frame.tile_columns() * kOut - 1;
    std::array<const float*, kPlaces> pixels;
    for (int64_t place = 0; place < kPlaces; ++place) {
      const int64_t row = top + place / kIn, column = left + place % kIn;
      const bool inside = row >= 0 && row < frame.rows && column >= 0 && column < frame.columns;
      pixels[static_cast<std::size_t>(place)] =
          inside ? frame.x + (row * frame.columns + column) * in : nothing_.data();
    }
    for (int64_t channel = 0; channel < in; channel += kLanes) {
      const __mmask16 mask = lanes_of(in - channel);
      __m512 half[kIn][kIn];  // [point][column]
      for (std::size_t column = 0; column < kIn; ++column) {
        __m512 d[kIn];
        for (std::size_t row = 0; row < kIn; ++row)
          d[row] = _mm512_maskz_loadu_ps(mask, pixels[row * kIn + column] + channel);
        transform_input(d, &half[0][column], kIn);
      }
      for (int64_t row = 0; row < kIn; ++row) {
        __m512 points[kIn];
        transform_input(half[row], points, 1);
        for (int64_t column = 0; column < kIn; ++column)
          _mm512_mask_storeu_ps(result + (row * kIn + column) * kTiles * in + channel, mask, points[column]);
      }
    }
  }

  /// products [36][kTiles·vectors·16] as a tile's pixels.
  VGGT_AVX512 void write(const Frame& frame, int64_t tile, const float* products) const {
    const int64_t stride = kTiles * filters_.vectors * kLanes, top = tile / frame.tile_columns() * kOut,
                  left = tile % frame.tile_columns() * kOut;
    const int64_t rows = std::min(kOut, frame.rows - top), columns = std::min(kOut, frame.columns - left);
    for (int64_t v = 0; v < filters_.vectors; ++v) {
      __m512 half[kOut][kIn], pixels[kOut][kOut];
      for (int64_t column = 0; column < kIn; ++column) {
        __m512 m[kIn];
        for (int64_t row = 0; row < kIn; ++row)
          m[row] = _mm512_loadu_ps(products + (row * kIn + column) * stride + v * kLanes);
        transform_output(m, &half[0][column], kIn);
      }
      const __m512 bias = _mm512_loadu_ps(frame.bias + v * kLanes);
      const __mmask16 mask = lanes_of(filters_.out - v * kLanes);
      for (int64_t row = 0; row < rows; ++row) {
        transform_output(half[row], pixels[row], 1);
        float* const to = frame.y + ((top + row) * frame.columns + left) * filters_.out + v * kLanes;
        for (int64_t column = 0; column < columns; ++column)
          _mm512_mask_storeu_ps(to + column * filters_.out, mask, _mm512_add_ps(pixels[row][column], bias));
      }
    }
  }

  const Filters& filters_;
  std::vector<float> nothing_;   // what lies outside the map
  std::vector<float> points_;    // [36][kTiles][in]
  std::vector<float> products_;  // [36][kTiles][vectors·16]
};

}  // namespace

bool winograd_pays(const at::Tensor& x, const at::Tensor& weight, int64_t stride, int64_t padding) {
  static const bool runs = runs_avx512();
  const bool takes = runs && x.is_cpu() && x.scalar_type() == at::kFloat &&
                     weight.scalar_type() == at::kFloat && weight.size(2) == 3 && weight.size(3) == 3 &&
                     stride == 1 && padding == 1;
  if (!takes || std::min(weight.size(0), weight.size(1)) < kFewestChannels) return false;
  const int64_t pairs = weight.size(0) * weight.size(1), pixels = x.size(2) * x.size(3);
  return pairs <= kMostPairs && pixels >= std::max(kFewestPixels, pairs / kMostPairsOfPixel);
}

at::Tensor convolve_winograd(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const Filters filters = filters_of(weight);
  const at::Tensor from = x.contiguous(at::MemoryFormat::ChannelsLast),
                   offsets = at::zeros({filters.vectors * kLanes}, x.options());
  if (bias.defined()) offsets.narrow(0, 0, filters.out).copy_(bias);
  const int64_t H = x.size(2), W = x.size(3);
  at::Tensor y =
      at::empty({x.size(0), filters.out, H, W}, x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const float *const input = from.const_data_ptr<float>(), *const added = offsets.const_data_ptr<float>();
  float* const output = y.mutable_data_ptr<float>();
  const auto frame = [&](int64_t f) {
    return Frame{H, W, input + f * H * W * filters.in, added, output + f * H * W * filters.out};
  };
  const int64_t pieces = (frame(0).tiles() + kTiles - 1) / kTiles;  // of a frame
  at::parallel_for(0, x.size(0) * pieces, 1, [&](int64_t begin, int64_t end) {
    Tiles tiles(filters);
    for (int64_t piece = begin; piece < end; ++piece)
      tiles.convolve(frame(piece / pieces), piece % pieces * kTiles);
  });
  return y;
}

}  // namespace vggt
#else
namespace vggt {

bool winograd_pays(const at::Tensor&, const at::Tensor&, int64_t, int64_t) {
  return false;
}

at::Tensor convolve_winograd(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  TORCH_CHECK(false, "convolve_winograd: not on this processor");
}

}  // namespace vggt
#endif
