#include "io/frames/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "io/files/clones.h"

namespace vggt {
namespace {

// Bits of a weight's fraction: of 32, 8 are the pixel's and 2 are headroom.
constexpr int kPrecision = 32 - 8 - 2;
constexpr int32_t kHalf = 1 << (kPrecision - 1);
constexpr double kSupport = 2;  // of the cubic at scale 1
constexpr int kRows = 16;       // rows that go through the horizontal pass side by side

// The source samples [first, first + count) of one output sample, and the position of their first weight.
struct Taps {
  int first, count;
  std::size_t weights;
};

struct Filter {
  std::vector<Taps> taps;
  std::vector<int32_t> weights;
};

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The weights of outputs [begin, begin + count) of `out`. The order of operations is Pillow's, as another
// order changes the last bit of some weights, and pixels with it.
Filter make_filter(int in, int64_t out, int64_t begin, int count) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = kSupport * stretch, shrink = 1.0 / stretch;
  Filter filter;
  std::vector<double> weights;
  for (int i = 0; i < count; ++i) {
    const double center = (static_cast<double>(begin + i) + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int last = std::min(in, static_cast<int>(center + support + 0.5));
    weights.clear();
    double sum = 0;
    for (int x = 0; x < last - first; ++x) {
      weights.push_back(cubic((x + first - center + 0.5) * shrink));
      sum += weights.back();
    }
    filter.taps.push_back({first, last - first, filter.weights.size()});
    for (double weight : weights) {
      if (sum != 0) weight /= sum;
      const double fixed = weight * (1 << kPrecision);
      filter.weights.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
  return filter;
}

inline uint8_t clip(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255));
}

// block [in,3,kRows] → rows [kRows,3,out]
VGGT_CLONES void filter_columns(const Taps* taps, const int32_t* weights, const uint8_t* block, int out,
                                uint8_t* rows) {
  constexpr int kLanes = 3 * kRows;
  for (int x = 0; x < out; ++x) {
    int32_t sums[kLanes];
    for (int32_t& sum : sums) sum = kHalf;
    const uint8_t* source = block + static_cast<std::size_t>(taps[x].first) * kLanes;
    const int32_t* weight = weights + taps[x].weights;
    for (int t = 0; t < taps[x].count; ++t, source += kLanes) {
      for (int i = 0; i < kLanes; ++i) sums[i] += weight[t] * source[i];
    }
    for (int c = 0; c < 3; ++c) {
      for (int r = 0; r < kRows; ++r)
        rows[static_cast<std::size_t>(r * 3 + c) * out + x] = clip(sums[c * kRows + r]);
    }
  }
}

// rows [count,lanes] → one row [lanes]
VGGT_CLONES void filter_rows(const int32_t* weights, int count, const uint8_t* rows, int lanes, int32_t* sums,
                             uint8_t* result) {
  for (int i = 0; i < lanes; ++i) sums[i] = kHalf;
  for (int t = 0; t < count; ++t) {
    const uint8_t* row = rows + static_cast<std::size_t>(t) * lanes;
    const int32_t weight = weights[t];
    for (int i = 0; i < lanes; ++i) sums[i] += weight * row[i];
  }
  for (int i = 0; i < lanes; ++i) result[i] = clip(sums[i]);
}

// rows [kRows,3·width] → block [3·width,kRows]
VGGT_CLONES void interleave_rows(const uint8_t* rows, std::size_t lanes, uint8_t* block) {
  for (std::size_t i = 0; i < lanes; ++i) {
    for (int r = 0; r < kRows; ++r) block[i * kRows + r] = rows[r * lanes + i];
  }
}

void split_channels(const uint8_t* rgb, int width, uint8_t* planes) {
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) planes[static_cast<std::size_t>(c) * width + x] = rgb[3 * x + c];
  }
}

// Source rows [first, first + count) at the target's width: [count,3,out], with up to kRows - 1 rows of
// slack.
std::vector<uint8_t> horizontal_pass(int width, const RowReader& read_row, int first, int count, int out) {
  const std::size_t lanes = std::size_t{3} * width, out_lanes = std::size_t{3} * out;
  std::vector<uint8_t> result(static_cast<std::size_t>(count + kRows - 1) * out_lanes);
  std::vector<uint8_t> rows(kRows * lanes);
  if (width == out) {  // as Pillow does, no pass where nothing changes
    for (int y = 0; y < count; ++y) {
      read_row(first + y, rows.data());
      split_channels(rows.data(), width, result.data() + y * out_lanes);
    }
    return result;
  }
  const Filter filter = make_filter(width, out, 0, out);
  std::vector<uint8_t> block(kRows * lanes);
  for (int y = 0; y < count; y += kRows) {
    for (int r = 0; r < std::min(kRows, count - y); ++r) read_row(first + y + r, rows.data() + r * lanes);
    interleave_rows(rows.data(), lanes, block.data());
    filter_columns(filter.taps.data(), filter.weights.data(), block.data(), out,
                   result.data() + y * out_lanes);
  }
  return result;
}

}  // namespace

std::vector<uint8_t> resize_bicubic(int width, int height, const RowReader& read_row,
                                    const ResizeTarget& target) {
  const bool vertical = target.height != height;
  Filter filter;
  int first = static_cast<int>(target.first_row), last = first + target.rows;
  if (vertical) {
    filter = make_filter(height, target.height, target.first_row, target.rows);
    first = filter.taps.front().first;
    last = filter.taps.back().first + filter.taps.back().count;
  }
  const std::vector<uint8_t> rows = horizontal_pass(width, read_row, first, last - first, target.width);
  const int lanes = 3 * target.width;
  const std::size_t plane = static_cast<std::size_t>(target.rows) * target.width;
  std::vector<uint8_t> planes(3 * plane), row(lanes);
  std::vector<int32_t> sums(lanes);
  for (int y = 0; y < target.rows; ++y) {
    const uint8_t* source = rows.data() + static_cast<std::size_t>(y) * lanes;
    if (vertical) {
      const Taps& taps = filter.taps[y];
      filter_rows(filter.weights.data() + taps.weights, taps.count,
                  rows.data() + static_cast<std::size_t>(taps.first - first) * lanes, lanes, sums.data(),
                  row.data());
      source = row.data();
    }
    for (int c = 0; c < 3; ++c) {
      std::copy_n(source + c * target.width, target.width,
                  planes.data() + c * plane + std::size_t(y) * target.width);
    }
  }
  return planes;
}

}  // namespace vggt
