#pragma once
// One tile of one frame after exposure: blur, then compression; the same on the CPU and on the GPU.
#include "weights/scenes/scene.h"

namespace vggt::scenes {

// A tile is whole blocks of 8×8 pixels, so that compression sees each block in one place. With its halo this
// many rows give nearly every thread something to do in every step.
constexpr int kBlock = 8, kBlocksAcross = 8, kBlocksDown = 3, kHalo = 2;
constexpr int kDamageRows = kBlocksDown * kBlock, kDamageColumns = kBlocksAcross * kBlock;
constexpr int kDamageThreads = (kDamageRows + 2 * kHalo) * kBlocksAcross;
static_assert(kDamageThreads % 32 == 0);

// Value k of all blocks of a row lies together, and rows begin 8 banks apart: no two threads of a warp meet
// in a bank of shared memory where each has its row of a block or its column. Pixel by pixel they meet in
// pairs.
struct DamageTile {
  static constexpr int kPitch = kDamageColumns + 8;
  float values[3][kDamageRows + 2 * kHalo][kPitch];

  VGGT_HD float& at(int channel, int row, int block, int k) {
    return values[channel][row][k * kBlocksAcross + block];
  }
};

// Five taps of a Gaussian. A deviation that leaves everything to the middle one gives near = far = 0 exactly.
struct Taps {
  float middle, near, far;
};

VGGT_HD Taps gaussian(float deviation) {
  const float variance = 2 * square(fmaxf(deviation, 0.05f));
  const float near = expf(-1 / variance), far = expf(-4 / variance), total = 1 + 2 * near + 2 * far;
  return {1 / total, near / total, far / total};
}

// Blurs eight values in a line, given two more on both sides. What lies outside of the image (all but the
// first `inside`) repeats the last blurred value.
VGGT_HD void blur(const float (&line)[kBlock + 2 * kHalo], const Taps& taps, int inside,
                  float (&out)[kBlock]) {
  for (int k = 0; k < kBlock; ++k) {
    out[k] = taps.middle * line[k + 2] + taps.near * (line[k + 1] + line[k + 3]) +
             taps.far * (line[k] + line[k + 4]);
    if (k > 0 && k >= inside) out[k] = out[k - 1];
  }
}

// cos(k pi / 16) / 2
constexpr float kCos1 = 0.490392640f, kCos2 = 0.461939766f, kCos3 = 0.415734806f, kCos4 = 0.353553391f,
                kCos5 = 0.277785117f, kCos6 = 0.191341716f, kCos7 = 0.097545161f;

// The odd half of the transform, and of its inverse: the matrix is symmetric.
VGGT_HD void cosine_odd(float a, float b, float c, float d, float (&out)[4]) {
  out[0] = kCos1 * a + kCos3 * b + kCos5 * c + kCos7 * d;
  out[1] = kCos3 * a - kCos7 * b - kCos1 * c - kCos5 * d;
  out[2] = kCos5 * a - kCos1 * b + kCos7 * c + kCos3 * d;
  out[3] = kCos7 * a - kCos5 * b + kCos3 * c - kCos1 * d;
}

// The orthonormal cosine transform of eight values.
VGGT_HD void cosine_transform(float (&v)[kBlock]) {
  const float s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
  float odd[4];
  cosine_odd(v[0] - v[7], v[1] - v[6], v[2] - v[5], v[3] - v[4], odd);
  v[0] = kCos4 * (s0 + s3 + (s1 + s2));
  v[4] = kCos4 * (s0 + s3 - (s1 + s2));
  v[2] = kCos2 * (s0 - s3) + kCos6 * (s1 - s2);
  v[6] = kCos6 * (s0 - s3) - kCos2 * (s1 - s2);
  for (int k = 0; k < 4; ++k) v[2 * k + 1] = odd[k];
}

VGGT_HD void inverse_cosine_transform(float (&v)[kBlock]) {
  const float sum = kCos4 * (v[0] + v[4]), difference = kCos4 * (v[0] - v[4]);
  const float outer = kCos2 * v[2] + kCos6 * v[6], inner = kCos6 * v[2] - kCos2 * v[6];
  const float even[4] = {sum + outer, difference + inner, difference - inner, sum - outer};
  float odd[4];
  cosine_odd(v[1], v[3], v[5], v[7], odd);
  for (int k = 0; k < 4; ++k) {
    v[k] = even[k] + odd[k];
    v[7 - k] = even[k] - odd[k];
  }
}

// Brightness and the two colour differences of ITU-R BT.601, within ±0.5, and back.
VGGT_HD Vec3 luma_chroma(Vec3 rgb) {
  const float luma = 0.299f * rgb.x + 0.587f * rgb.y + 0.114f * rgb.z;
  return {luma, (rgb.z - luma) * (1 / 1.772f), (rgb.x - luma) * (1 / 1.402f)};
}

VGGT_HD Vec3 red_green_blue(Vec3 c) {
  const float red = c.x + 1.402f * c.z, blue = c.x + 1.772f * c.y;
  return {red, (c.x - 0.299f * red - 0.114f * blue) * (1 / 0.587f), blue};
}

// Rounds a column of coefficients to multiples of the step, coarser for fine detail and for colour.
VGGT_HD void quantise(float (&column)[kBlock], int channel, int frequency, float step) {
  const float least = fmaxf(step, 1e-3f) * (channel == 0 ? 1 : 2);
  for (int k = 0; k < kBlock; ++k) {
    const float quantum = least * (1 + 0.55f * (frequency + k));
    column[k] = rintf(column[k] / quantum) * quantum;
  }
}

VGGT_HD int nearest_inside(int at, int length) {
  return at < 0 ? 0 : at < length ? at : length - 1;
}

// Reads eight pixels of a row, blurs along it, and leaves their brightness and colours transformed in the
// tile.
template <typename Value>
VGGT_HD void take_row(const DamageParams<Value>& p, int frame, int left, int top, const Taps& taps, int row,
                      int block, DamageTile& tile) {
  const int x = left + block * kBlock, y = nearest_inside(top + row - kHalo, p.height);
  if (x >= p.width) return;
  float channels[3][kBlock];
  for (int c = 0; c < 3; ++c) {
    const Value* line = p.images + ((static_cast<int64_t>(frame) * 3 + c) * p.height + y) * p.width;
    float around[kBlock + 2 * kHalo];
    for (int k = 0; k < kBlock + 2 * kHalo; ++k) {
      around[k] = static_cast<float>(line[nearest_inside(x + k - kHalo, p.width)]);
    }
    blur(around, taps, p.width - x, channels[c]);
  }
  for (int k = 0; k < kBlock; ++k) {
    const Vec3 c = luma_chroma({channels[0][k], channels[1][k], channels[2][k]});
    channels[0][k] = c.x;
    channels[1][k] = c.y;
    channels[2][k] = c.z;
  }
  for (int c = 0; c < 3; ++c) {
    cosine_transform(channels[c]);
    for (int k = 0; k < kBlock; ++k) tile.at(c, row, block, k) = channels[c][k];
  }
}

// Blurs and compresses one column of one channel in place, from its top to its bottom: a block is written to
// the first eight of the twelve rows that it is read from, and the next one needs only what is below these.
// That the column has coefficients along rows does not matter to a blur along columns.
VGGT_HD void damage_column(int below, const Taps& taps, float step, int channel, int column,
                           DamageTile& tile) {
  for (int first = 0; first < kDamageRows && first < below; first += kBlock) {
    float around[kBlock + 2 * kHalo], values[kBlock];
    for (int k = 0; k < kBlock + 2 * kHalo; ++k) around[k] = tile.values[channel][first + k][column];
    blur(around, taps, below - first, values);
    if (step > 0) {
      cosine_transform(values);
      quantise(values, channel, column / kBlocksAcross, step);
      inverse_cosine_transform(values);
    }
    for (int k = 0; k < kBlock; ++k) tile.values[channel][first + k][column] = values[k];
  }
}

VGGT_HD void back_to_colours(int row, int block, DamageTile& tile) {
  float channels[3][kBlock];
  for (int c = 0; c < 3; ++c) {
    for (int k = 0; k < kBlock; ++k) channels[c][k] = tile.at(c, row, block, k);
    inverse_cosine_transform(channels[c]);
  }
  for (int k = 0; k < kBlock; ++k) {
    const Vec3 rgb = clamp(red_green_blue({channels[0][k], channels[1][k], channels[2][k]}), 0, 1);
    tile.at(0, row, block, k) = rgb.x;
    tile.at(1, row, block, k) = rgb.y;
    tile.at(2, row, block, k) = rgb.z;
  }
}

// Work items 0 to count - 1, spread over the threads of a block; all are done when it returns.
template <typename Work>
VGGT_HD void each(int count, const Work& work) {
#ifdef __CUDA_ARCH__
  for (int i = threadIdx.x; i < count; i += kDamageThreads) work(i);
  __syncthreads();
#else
  for (int i = 0; i < count; ++i) work(i);
#endif
}

template <typename Value>
VGGT_HD void damage_tile(const DamageParams<Value>& p, int frame, int left, int top, DamageTile& tile) {
  const Damage amount = p.amounts[frame];
  const Taps across = gaussian(amount.blur_x), down = gaussian(amount.blur_y);
  const bool untouched = across.near == 0 && down.near == 0 && !(amount.step > 0);
  const int right = p.width - left, below = p.height - top;  // how much of the image is there
  if (!untouched) {
    each((kDamageRows + 2 * kHalo) * kBlocksAcross,
         [&](int i) { take_row(p, frame, left, top, across, i / kBlocksAcross, i % kBlocksAcross, tile); });
    each(3 * kDamageColumns, [&](int i) {
      const int column = i % kDamageColumns;
      if (column % kBlocksAcross * kBlock < right) {
        damage_column(below, down, amount.step, i / kDamageColumns, column, tile);
      }
    });
    each(kDamageRows * kBlocksAcross, [&](int i) {
      const int row = i / kBlocksAcross, block = i % kBlocksAcross;
      if (row < below && block * kBlock < right) back_to_colours(row, block, tile);
    });
  }
  // Through the tile and not from registers: neighbouring threads write neighbouring pixels.
  each(3 * kDamageRows * kDamageColumns, [&](int i) {
    const int x = i % kDamageColumns, y = i / kDamageColumns % kDamageRows,
              c = i / (kDamageRows * kDamageColumns);
    if (x >= right || y >= below) return;
    const int64_t at = ((static_cast<int64_t>(frame) * 3 + c) * p.height + top + y) * p.width + left + x;
    p.damaged[at] = untouched ? p.images[at] : static_cast<Value>(tile.at(c, y, x / kBlock, x % kBlock));
  });
}

}  // namespace vggt::scenes
