#include "model/layers/screened_match.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <ATen/Parallel.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "model/layers/lanes.h"

#define VGGT_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

// Note [Screening by 8 bits]
//
// Each row of x, and each row of y less the mean of all, which changes no row's best, is rounded to whole
// numbers of at most 127 times a scale of its own. Of rows a and b let a' and b' be the rounded ones:
//   |a·b - a'·b'| ≤ ‖a - a'‖·‖b‖ + ‖a'‖·‖b - b'‖,
// at most `bound` with the largest norms of all b. A row b whose a'·b' is more than twice that below the
// largest one cannot be the best. Of 18052 tokens of a video 3 to 14 are left.

namespace vggt {
namespace {

// A tile of products: rows of x, and vectors of 16 rows of y.
constexpr int64_t kRows = 6, kVectors = 4, kLanes = 16, kColumns = kVectors * kLanes;
constexpr int64_t kBlockRows = 8 * kRows;            // of x: a thread's at a time
constexpr int64_t kCacheBytes = int64_t{256} << 10;  // of y: they stay in a core's cache meanwhile
constexpr int64_t kFewest = 64, kOneOf = 32;         // so many rows of y may be left, or one of so many
// What fp32 rounds (y less the mean, norms, products), as a share of the product of norms; with more columns
// than these it grows as they do.
constexpr float kRounding = 2e-6F, kRoundingColumns = 1024;
constexpr float kLeastSquare = 1e-20F;  // of a row: errors of smaller ones have no squares in fp32
constexpr float kInf = std::numeric_limits<float>::infinity();

int64_t round_up(int64_t count, int64_t of) {
  return (count + of - 1) / of * of;
}

/// A row as whole numbers times `scale`.
struct Rounded {
  float scale, norm, error;  // norm of the row, of what rounding changes; inf where fp32 cannot tell
};

/// numbers: one for each of the row's.
VGGT_VNNI Rounded round_row(const float* row, int64_t size, int8_t* numbers) {
  __m512 most = _mm512_setzero_ps(), squares = most, errors = most;
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m512 x = _mm512_maskz_loadu_ps(lanes_of(size - i), row + i);
    most = _mm512_max_ps(most, _mm512_abs_ps(x));
    squares = _mm512_fmadd_ps(x, x, squares);
  }
  const float square = _mm512_reduce_add_ps(squares), scale = _mm512_reduce_max_ps(most) / 127;
  if (!(square < kInf) || (square < kLeastSquare && scale > 0)) return {0, kInf, kInf};
  const __m512 step = _mm512_set1_ps(scale), inverse = _mm512_set1_ps(scale > 0 ? 1 / scale : 0);
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m512 x = _mm512_maskz_loadu_ps(lanes_of(size - i), row + i);
    // The largest one may come out a little above 127.
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
    _mm512_mask_cvtsepi32_storeu_epi8(numbers + i, lanes_of(size - i), whole);
    const __m512 off = _mm512_fnmadd_ps(step, _mm512_cvtepi32_ps(whole), x);
    errors = _mm512_fmadd_ps(off, off, errors);
  }
  return {scale, std::sqrt(square), std::sqrt(_mm512_reduce_add_ps(errors))};
}

/// The rows of y as the tiles read them.
struct Screen {
  int64_t rows, quads;           // d; the groups of 4 numbers of a row
  std::vector<uint8_t> numbers;  // [d/64][quads][64][4], plus 128: the products take one side without sign
  std::vector<float> scale, offset;      // of each row; beyond the last one 0 and -inf
  float norm = 0, error = 0, whole = 0;  // largest ones: less the mean, of rounding, with the mean

  const uint8_t* column(int64_t row) const { return numbers.data() + row * quads * 4; }
};

Screen screen_of(const at::Tensor& y) {
  const int64_t d = y.size(0), C = y.size(1), quads = (C + 3) / 4, all = round_up(d, kColumns);
  Screen screen{d, quads, std::vector<uint8_t>(static_cast<std::size_t>(all * quads * 4), 128),
                std::vector<float>(static_cast<std::size_t>(all), 0),
                std::vector<float>(static_cast<std::size_t>(all), -kInf)};
  const at::Tensor mean = y.mean(0);  // [C]
  const float *const rows = y.const_data_ptr<float>(), *const middle = mean.const_data_ptr<float>();
  std::vector<float> norms(static_cast<std::size_t>(all)), errors(norms);
  at::parallel_for(0, all / kColumns, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(C));
    std::vector<int8_t> numbers(static_cast<std::size_t>(quads * 4));
    for (int64_t n = begin * kColumns; n < std::min(end * kColumns, d); ++n) {
      for (int64_t i = 0; i < C; ++i) row[static_cast<std::size_t>(i)] = rows[n * C + i] - middle[i];
      const Rounded rounded = round_row(row.data(), C, numbers.data());
      const auto place = static_cast<std::size_t>(n);
      screen.scale[place] = rounded.scale;
      screen.offset[place] = 0;
      norms[place] = rounded.norm;
      errors[place] = rounded.error;
      uint8_t* to = screen.numbers.data() + n / kColumns * kColumns * quads * 4 + n % kColumns * 4;
      for (int64_t i = 0; i < quads * 4; ++i)
        to[i / 4 * kColumns * 4 + i % 4] = static_cast<uint8_t>(numbers[static_cast<std::size_t>(i)] + 128);
    }
  });
  screen.norm = *std::ranges::max_element(norms);
  screen.error = *std::ranges::max_element(errors);
  screen.whole = screen.norm + mean.norm().item<float>();
  return screen;
}

/// A row of x, and which rows of y may be its best one.
struct Searched {
  float least = -kInf;                // what a product must have, in the row's scale
  float most = -kInf, margin = kInf;  // the largest one; how far below it the best may be
  std::vector<int32_t> rows;          // of y, ascending
  std::vector<float> products;
  bool is_left = false;

  void drop_the_rest() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (products[i] < least) continue;
      rows[kept] = rows[i];
      products[kept++] = products[i];
    }
    rows.resize(kept);
    products.resize(kept);
  }
};

using TileProducts = std::array<float, kColumns>;

/// Notes which of a tile's products may be the best, as long as these are not too many.
void note(const TileProducts& products, int64_t first, Searched& row) {
  constexpr std::size_t kMost = 2048;
  row.most = std::max(row.most, *std::ranges::max_element(products));
  row.least = row.most - row.margin;
  for (int64_t i = 0; i < kColumns; ++i) {
    if (products[static_cast<std::size_t>(i)] < row.least) continue;
    row.rows.push_back(static_cast<int32_t>(first + i));
    row.products.push_back(products[static_cast<std::size_t>(i)]);
  }
  if (row.rows.size() <= kMost) return;
  row.drop_the_rest();
  if (row.rows.size() <= kMost / 2) return;
  row = Searched();  // frees what was noted
  row.least = kInf;
  row.is_left = true;
}

/// sums and the products of 16 groups of 4 numbers, without sign and with one. By the intrinsic GCC 12 copies
/// the sums to and fro, which takes half as long again.
VGGT_VNNI inline __m512i add_products(__m512i sums, __m512i without_sign, __m512i with_sign) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(without_sign), "v"(with_sign));
  return sums;
}

/// Products of kRows rows of x, numbers [kRows][quads][4], with the kColumns rows of y from `first` on.
/// starts: of each row of x what takes off y's 128.
VGGT_VNNI void screen_tile(const int8_t* numbers, const int32_t* starts, const Screen& y, int64_t first,
                           Searched* rows) {
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_set1_epi32(starts[r]);
  }
  const int64_t row_bytes = y.quads * 4;
  const uint8_t* column = y.column(first);
  for (int64_t quad = 0; quad < y.quads; ++quad) {
    __m512i of_y[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      of_y[v] = _mm512_loadu_si512(column + (quad * kColumns + v * kLanes) * 4);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, numbers + r * row_bytes + quad * 4, sizeof four);
      const __m512i of_x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = add_products(sums[r][v], of_y[v], of_x);
    }
  }
  std::array<TileProducts, kRows> products;
  std::array<unsigned, kRows> some{};  // not 0 where one of a row's may be the best
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512 scale = _mm512_loadu_ps(&y.scale[first + v * kLanes]),
                 offset = _mm512_loadu_ps(&y.offset[first + v * kLanes]);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 product = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][v]), scale, offset);
      some[r] |= _mm512_cmp_ps_mask(product, _mm512_set1_ps(rows[r].least), _CMP_GE_OQ);
      _mm512_storeu_ps(&products[r][v * kLanes], product);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (some[r] != 0) note(products[r], first, rows[r]);
  }
}

VGGT_VNNI float dot(const float* a, const float* b, int64_t size) {
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  int64_t i = 0;
  for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
    sums[0] = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), sums[0]);
    sums[1] = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + kLanes), _mm512_loadu_ps(b + i + kLanes), sums[1]);
  }
  for (; i < size; i += kLanes) {
    const __mmask16 mask = lanes_of(size - i);
    sums[0] =
        _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i), sums[0]);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
}

/// Screens up to kBlockRows rows of x [count,C].
class Block {
 public:
  Block(const float* x, int64_t count, int64_t C, const Screen& y)
      : x_(x), count_(count), C_(C), y_(y), searched_(kBlockRows) {
    const float rounding = kRounding * std::max(1.0F, static_cast<float>(C) / kRoundingColumns);
    std::vector<int8_t> numbers(static_cast<std::size_t>(kBlockRows * y.quads * 4), 0);
    std::vector<int32_t> starts(kBlockRows, 0);
    for (int64_t n = 0; n < count; ++n) {
      int8_t* const own = numbers.data() + n * y.quads * 4;
      const Rounded rounded = round_row(x + n * C, C, own);
      Searched& row = searched_[static_cast<std::size_t>(n)];
      const float bound = rounded.error * y.norm + (rounded.norm + rounded.error) * y.error +
                          rounding * rounded.norm * y.whole;
      row.margin = 2 * bound / rounded.scale;  // NaN of a row of zeros
      row.is_left = !(row.margin < kInf);
      row.least = row.is_left ? kInf : -kInf;
      int32_t sum = 0;
      for (int64_t i = 0; i < C; ++i) sum += own[i];
      starts[static_cast<std::size_t>(n)] = -128 * sum;
    }
    for (int64_t n = count; n < kBlockRows; ++n) searched_[static_cast<std::size_t>(n)].least = kInf;
    search(numbers, starts);
  }

  /// Whether a row has a result; then writes it.
  bool result(int64_t n, const float* y, float& score, int64_t& best) {
    Searched& row = searched_[static_cast<std::size_t>(n)];
    if (row.is_left) return false;
    row.drop_the_rest();
    if (static_cast<int64_t>(row.rows.size()) > std::max(kFewest, y_.rows / kOneOf)) return false;
    score = -kInf;
    for (const int32_t candidate : row.rows) {
      const float product = dot(x_ + n * C_, y + candidate * C_, C_);
      if (!(product > score)) continue;
      score = product;
      best = candidate;
    }
    return true;
  }

 private:
  void search(const std::vector<int8_t>& numbers, const std::vector<int32_t>& starts) {
    const int64_t all = round_up(y_.rows, kColumns), row_bytes = y_.quads * 4,
                  some = std::max(kColumns, kCacheBytes / row_bytes / kColumns * kColumns);
    for (int64_t begin = 0; begin < all; begin += some) {
      for (int64_t row = 0; row < count_; row += kRows) {
        for (int64_t column = begin; column < std::min(all, begin + some); column += kColumns)
          screen_tile(numbers.data() + row * row_bytes, starts.data() + row, y_, column,
                      searched_.data() + row);
      }
    }
  }

  const float* x_;
  int64_t count_, C_;
  const Screen& y_;
  std::vector<Searched> searched_;
};

}  // namespace

bool can_screen_matches() {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vnni");
  return can;
}

at::Tensor match_screened(const at::Tensor& x, const at::Tensor& y, at::Tensor& score, at::Tensor& best) {
  const int64_t s = x.size(0), C = x.size(1);
  TORCH_CHECK(C > 0 && C <= 65536, "match_screened: expected 1 to 65536 columns, got ", C);
  const Screen screen = screen_of(y);
  const float *const of_x = x.const_data_ptr<float>(), *const of_y = y.const_data_ptr<float>();
  float* const scores = score.data_ptr<float>();
  int64_t* const places = best.data_ptr<int64_t>();
  at::Tensor left = at::zeros({s}, x.options().dtype(at::kBool));
  bool* const is_left = left.data_ptr<bool>();
  at::parallel_for(0, (s + kBlockRows - 1) / kBlockRows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin * kBlockRows; n < std::min(s, end * kBlockRows); n += kBlockRows) {
      const int64_t count = std::min(kBlockRows, s - n);
      Block block(of_x + n * C, count, C, screen);
      for (int64_t i = n; i < n + count; ++i) is_left[i] = !block.result(i - n, of_y, scores[i], places[i]);
    }
  });
  return left.nonzero().squeeze(1);
}

}  // namespace vggt
#else
namespace vggt {

bool can_screen_matches() {
  return false;
}

at::Tensor match_screened(const at::Tensor&, const at::Tensor&, at::Tensor&, at::Tensor&) {
  TORCH_CHECK(false, "match_screened: not on this processor");
}

}  // namespace vggt
#endif
