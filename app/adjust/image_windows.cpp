#include "app/adjust/image_windows.h"

#include <Eigen/Geometry>
#include <Eigen/LU>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <opencv2/imgproc.hpp>

#include "io/files/clones.h"

namespace vggt {
namespace {

constexpr float kEdge = 1.2F;                       // depths over 7 pixels that differ by more are an edge
constexpr double kNoiseSigma = 1;                   // pixels of blur against noise
constexpr double kLocalNoise = 5, kLocalGain = 40;  // of the normalised image
constexpr int kLocalSide = 19;                      // pixels that the local mean is taken over
constexpr int kSmallest = 100;                      // pixels of the longer side: no level is halved further
constexpr int kRadius = 8, kSide = 2 * kRadius + 1, kArea = kSide * kSide;
constexpr int kSteps = 10;
constexpr int kPatience = 4;  // steps after which windows that are still unlike are given up
// Mean square of the difference of standardised windows, on the finest level and on others; of unrelated ones
// it is 2.
constexpr float kUnlikeAtLast = 1, kUnlike = 1.4F;
constexpr float kSettled = 0.03F;     // pixels of the last step
constexpr float kLeastGain = 0.2F;    // of a step against what the slopes foretell, to learn from it
constexpr float kLeastDeviation = 4;  // of a window's values
constexpr double kNoiseArea = 12;     // pixels whose noise, after the blur, is one
constexpr float kMostZoom = 1.5F;     // of the other level's pixels against this one's

// A window's values lie in arrays that whole vectors of the processor fill; what is beyond the window is 0.
constexpr int kLanes = 16, kPadded = (kArea + kLanes - 1) / kLanes * kLanes;
using Values = std::array<float, kPadded>;
constexpr float kMiddle = 128;  // taken off all values: sums of squares stay small

bool contains(const cv::Mat& image, float x, float y, float margin) {
  return x >= margin && y >= margin && x <= static_cast<float>(image.cols - 1) - margin &&
         y <= static_cast<float>(image.rows - 1) - margin;
}

/// A window to be found again: its values less their mean and over their deviation, and their slopes.
struct Template {
  Values values, across, down;
  float across_sum = 0, down_sum = 0, value_across = 0, value_down = 0;  // sums of slopes, and of products
  Eigen::Matrix2f inverse;                                               // of the sum of the slopes' products

  bool make(const cv::Mat& image, float x, float y);
};

/// Sums of every kLanes-th number, so that the compiler can use vectors of any width.
using Lanes = std::array<float, kLanes>;

float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (const float x : lanes) sum += x;
  return sum;
}

/// The values around a pixel whose window's upper left neighbour is image[0], less kMiddle, and their slopes;
/// adds up the values and their squares. right, low: how far all pixels lie between others.
VGGT_CLONES void read_window(const uint8_t* image, std::size_t row_bytes, float right, float low,
                             Template& to, Lanes& sum, Lanes& squares) {
  constexpr int kWide = kSide + 2;
  std::array<float, kWide * kWide> wide, across, down;  // slopes between the first and the last row alone
  for (int row = 0; row < kWide; ++row) {
    const uint8_t* upper = image + static_cast<std::size_t>(row) * row_bytes;
    const uint8_t* lower = upper + row_bytes;
    float* out = &wide[static_cast<std::size_t>(row * kWide)];
    for (int column = 0; column < kWide; ++column) {
      const float a = static_cast<float>(upper[column]) +
                      right * static_cast<float>(upper[column + 1] - upper[column]),
                  b = static_cast<float>(lower[column]) +
                      right * static_cast<float>(lower[column + 1] - lower[column]);
      out[column] = a + low * (b - a) - kMiddle;
    }
  }
  for (std::size_t i = kWide; i < kWide * (kWide - 1); ++i) {
    across[i] = (wide[i + 1] - wide[i - 1]) / 2;
    down[i] = (wide[i + kWide] - wide[i - kWide]) / 2;
  }
  for (std::size_t row = 0; row < kSide; ++row) {
    const std::size_t from = (row + 1) * kWide + 1, place = row * kSide;
    std::copy_n(&wide[from], kSide, &to.values[place]);
    std::copy_n(&across[from], kSide, &to.across[place]);
    std::copy_n(&down[from], kSide, &to.down[place]);
  }
  for (Values* values : {&to.values, &to.across, &to.down})
    std::fill(values->begin() + kArea, values->end(), 0.F);
  for (std::size_t i = 0; i < kPadded; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float value = to.values[i + j];
      sum[j] += value;
      squares[j] += value * value;
    }
  }
}

/// Sums of the products of slopes, of the slopes, and of their products with the values.
struct SlopeSums {
  Lanes xx{}, xy{}, yy{}, across{}, down{}, value_across{}, value_down{};
};

/// Takes the mean off the window's values, scales them and their slopes, and adds up.
VGGT_CLONES void standardise(Template& window, float mean, float scale, SlopeSums& sums) {
  for (std::size_t i = 0; i < kPadded; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const std::size_t k = i + j;
      const float inside = k < kArea ? scale : 0.F;
      const float value = (window.values[k] - mean) * inside;
      const float across = window.across[k] * scale, down = window.down[k] * scale;
      window.values[k] = value;
      window.across[k] = across;
      window.down[k] = down;
      sums.xx[j] += across * across;
      sums.xy[j] += across * down;
      sums.yy[j] += down * down;
      sums.across[j] += across;
      sums.down[j] += down;
      sums.value_across[j] += value * across;
      sums.value_down[j] += value * down;
    }
  }
}

/// False where some of the window lies outside the image, or shows too little to be found again.
bool Template::make(const cv::Mat& image, float x, float y) {
  if (!contains(image, x, y, kRadius + 2)) return false;
  const int first_column = static_cast<int>(x) - kRadius - 1, first_row = static_cast<int>(y) - kRadius - 1;
  Lanes sum{}, squares{};
  read_window(image.ptr<uint8_t>(first_row) + first_column, image.step[0], x - std::floor(x),
              y - std::floor(y), *this, sum, squares);
  const float mean = sum_of(sum) / kArea, variance = sum_of(squares) / kArea - mean * mean;
  if (!(variance > kLeastDeviation * kLeastDeviation)) return false;
  SlopeSums sums;
  standardise(*this, mean, 1 / std::sqrt(variance), sums);
  across_sum = sum_of(sums.across);
  down_sum = sum_of(sums.down);
  value_across = sum_of(sums.value_across);
  value_down = sum_of(sums.value_down);
  const float xx = sum_of(sums.xx), xy = sum_of(sums.xy), yy = sum_of(sums.yy);
  const float determinant = xx * yy - xy * xy;
  if (!(determinant > 1e-6F * (xx + yy) * (xx + yy))) return false;
  inverse << yy, -xy, -xy, xx;
  inverse /= determinant;
  return true;
}

/// Sums over a window as an image shows it: of its values, their squares, and their products with a
/// template's.
struct WindowSums {
  float value = 0, square = 0, product = 0, across = 0, down = 0;
};

/// The sums of the values at (xs + x, ys + y), all of which lie inside the image by a pixel.
VGGT_CLONES WindowSums window_sums(const uint8_t* image, int row_bytes, const float* xs, const float* ys,
                                   float x, float y, const Template& wanted) {
  // Three plain loops, of which the compiler makes vectors but for the second, which only loads.
  std::array<float, kPadded> right, low;
  std::array<int, kPadded> offsets;
  std::array<uint32_t, kPadded> around;  // bytes: the pixel, the one to its right, and both below
  for (std::size_t i = 0; i < kPadded; ++i) {
    const float at_x = xs[i] + x, at_y = ys[i] + y;
    const int column = static_cast<int>(at_x), row = static_cast<int>(at_y);
    right[i] = at_x - static_cast<float>(column);
    low[i] = at_y - static_cast<float>(row);
    offsets[i] = row * row_bytes + column;
  }
  const uint8_t* below = image + row_bytes;
#pragma GCC unroll 8  // a seventh less time for the whole
  for (std::size_t i = 0; i < kPadded; ++i) {
    uint16_t upper = 0, lower = 0;
    std::memcpy(&upper, image + offsets[i], sizeof(upper));
    std::memcpy(&lower, below + offsets[i], sizeof(lower));
    around[i] = upper | static_cast<uint32_t>(lower) << 16;
  }
  float sums[5][kLanes] = {};
  for (std::size_t i = 0; i < kPadded; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const std::size_t k = i + j;
      const auto byte = [&](int n) {
        return static_cast<float>(static_cast<int>(around[k] >> (8 * n) & 255));
      };
      const float inside = k < kArea ? 1.F : 0.F;
      const float a = byte(0), c = byte(2);
      const float top = a + right[k] * (byte(1) - a), bottom = c + right[k] * (byte(3) - c);
      const float value = (top + low[k] * (bottom - top) - kMiddle) * inside;
      sums[0][j] += value;
      sums[1][j] += value * value;
      sums[2][j] += value * wanted.values[k];
      sums[3][j] += value * wanted.across[k];
      sums[4][j] += value * wanted.down[k];
    }
  }
  float total[5] = {};
  for (int k = 0; k < 5; ++k) {
    for (int j = 0; j < kLanes; ++j) total[k] += sums[k][j];
  }
  return {total[0], total[1], total[2], total[3], total[4]};
}

/// Where a plane in space shows the pixels of a window: (xs, ys), in pixels of a level with this scale and
/// shift.
VGGT_CLONES void window_places(const PatchWarp& warp, float step_x, float step_y, float scale_x,
                               float scale_y, float shift_x, float shift_y, float* xs, float* ys) {
  const float* s = warp.slopes.data();
  for (int row = 0; row < kSide; ++row) {
    const float dy = static_cast<float>(row - kRadius) * step_y;
    const float ax = warp.at[0] + s[3] * dy, ay = warp.at[1] + s[4] * dy, az = warp.at[2] + s[5] * dy;
    for (int column = 0; column < kSide; ++column) {
      const float dx = static_cast<float>(column - kRadius) * step_x;
      const float inverse = 1 / (az + s[2] * dx), nx = (ax + s[0] * dx) * inverse,
                  ny = (ay + s[1] * dx) * inverse;
      const float r2 = nx * nx + ny * ny;
      const float factor = 1 + r2 * (warp.distortion[0] + r2 * warp.distortion[1]);
      xs[row * kSide + column] = (factor * nx * warp.focal[0] + warp.centre[0]) * scale_x + shift_x;
      ys[row * kSide + column] = (factor * ny * warp.focal[1] + warp.centre[1]) * scale_y + shift_y;
    }
  }
  for (int i = kArea; i < kPadded; ++i) {
    xs[i] = xs[0];
    ys[i] = ys[0];
  }
}

/// The level whose pixels are as large as those of the anchor's level, seen there, or the next finer one.
const ImageLevel& level_like(const std::vector<ImageLevel>& levels, double pixels_of_original) {
  const ImageLevel* chosen = &levels.front();
  for (const ImageLevel& level : levels) {
    if (level.map.scale_x * pixels_of_original * kMostZoom >= 1) chosen = &level;
  }
  return *chosen;
}

Eigen::Vector2f to_level(const PixelMap& map, const Eigen::Vector2f& pixel) {
  return {static_cast<float>(map.network_x(pixel.x())), static_cast<float>(map.network_y(pixel.y()))};
}

Eigen::Vector2f scale_of(const PixelMap& map) {
  return {static_cast<float>(map.scale_x), static_cast<float>(map.scale_y)};
}

/// The window as the other image shows it: its values where each of its pixels is seen, moved by a shift.
class SeenWindow {
 public:
  SeenWindow(const ImageLevel& here, const ImageLevel& there, const PatchWarp& warp) : image_(there.image) {
    const Eigen::Vector2f step = scale_of(here.map).cwiseInverse(), scale = scale_of(there.map);
    const Eigen::Vector2f first = to_level(there.map, Eigen::Vector2f::Zero());
    window_places(warp, step.x(), step.y(), scale.x(), scale.y(), first.x(), first.y(), xs_.data(),
                  ys_.data());
    using Places = Eigen::Map<const Eigen::Array<float, kPadded, 1>>;
    const Places xs(xs_.data()), ys(ys_.data());
    low_ = {xs.minCoeff(), ys.minCoeff()};
    high_ = {xs.maxCoeff(), ys.maxCoeff()};
    const float nearest = warp.at.z() - kRadius * warp.slopes.row(2).cwiseAbs().dot(step.transpose());
    in_front_ = nearest > kNearest * warp.at.z();
    jacobian_ = scale.asDiagonal() * warp.jacobian() * step.asDiagonal();
  }

  /// False where some of it lies outside.
  bool read(const Eigen::Vector2f& shift, const Template& wanted, WindowSums& sums) const {
    const Eigen::Vector2f moved = jacobian_ * shift;
    const Eigen::Vector2f low = low_ + moved, high = high_ + moved;
    if (!in_front_ || !contains(image_, low.x(), low.y(), kMargin) ||
        !contains(image_, high.x(), high.y(), kMargin))
      return false;
    sums = window_sums(image_.data, static_cast<int>(image_.step[0]), xs_.data(), ys_.data(), moved.x(),
                       moved.y(), wanted);
    return true;
  }

 private:
  static constexpr float kMargin = 1.5F;   // pixels to the image's border
  static constexpr float kNearest = 0.1F;  // the plane's least depth in the window, of the anchor's

  const cv::Mat& image_;
  Values xs_, ys_;              // pixels of the level
  Eigen::Vector2f low_, high_;  // the least and the greatest of them
  bool in_front_ = false;       // the whole window, of the camera
  Eigen::Matrix2f jacobian_;    // from pixels of the anchor's level to pixels of this one
};

struct Shift {
  Eigen::Vector2f by = Eigen::Vector2f::Zero();  // pixels of the anchor's level
  float squares = 0;                             // mean square of what the windows differ by
};

/// Moves `shift` to where the windows differ least; false where that leaves the image, leads far away or
/// leaves them less alike than `unlike`. Steps as Gauss and Newton's with the template's slopes, corrected by
/// what the steps before them achieved (Broyden's method): the seen window's slopes are never needed.
bool settle(const Template& wanted, const SeenWindow& seen, float unlike, Shift& shift) {
  WindowSums sums;
  const Eigen::Vector2f start = shift.by;
  Eigen::Matrix2f inverse = wanted.inverse;
  Eigen::Vector2f slope_before = Eigen::Vector2f::Zero(), moved = Eigen::Vector2f::Zero();
  for (int step = 0; step < kSteps; ++step) {
    if (!seen.read(shift.by, wanted, sums)) return false;
    const float mean = sums.value / kArea, variance = sums.square / kArea - mean * mean;
    const float scale = 1 / std::max(std::sqrt(std::max(variance, 0.F)), kLeastDeviation);
    shift.squares = 1 + variance * scale * scale - 2 * scale * sums.product / kArea;
    if (step >= kPatience && !(shift.squares < unlike)) return false;
    const Eigen::Vector2f slope(scale * (sums.across - mean * wanted.across_sum) - wanted.value_across,
                                scale * (sums.down - mean * wanted.down_sum) - wanted.value_down);
    if (step > 0) {
      const Eigen::Vector2f expected = inverse * (slope - slope_before);
      const float along = moved.dot(expected), whole = moved.squaredNorm();
      if (along > kLeastGain * whole && along < whole / kLeastGain)
        inverse += (moved - expected) * (moved.transpose() * inverse) / along;
    }
    const Eigen::Vector2f change = -(inverse * slope);
    const float length = change.norm();
    slope_before = slope;
    moved = length > 2 ? Eigen::Vector2f(change * (2 / length)) : change;
    shift.by += moved;
    if (!((shift.by - start).norm() <= kRadius)) return false;
    if (length < kSettled) break;
  }
  return shift.squares < unlike;
}

}  // namespace

cv::Mat gray_of(std::span<const uint8_t> rgb, int height, int width) {
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  cv::Mat gray(height, width, CV_8U);
  for (std::size_t i = 0; i < plane; ++i)
    gray.data[i] =
        static_cast<uint8_t>((77 * rgb[i] + 150 * rgb[plane + i] + 29 * rgb[2 * plane + i] + 128) >> 8);
  return gray;
}

cv::Mat corner_strength(const cv::Mat& gray) {
  cv::Mat strength;
  cv::cornerMinEigenVal(gray, strength, 7, 3);
  return strength;
}

cv::Mat depth_edges(const cv::Mat& depth) {
  cv::Mat nearest, farthest;
  const cv::Mat around = cv::Mat::ones(7, 7, CV_8U);
  cv::erode(depth, nearest, around);
  cv::dilate(depth, farthest, around);
  return ~((nearest > 0) & (farthest <= kEdge * nearest));
}

namespace {

cv::Mat normalised(const cv::Mat& gray) {
  cv::Mat values, smooth, mean, square, result;
  gray.convertTo(values, CV_32F);
  cv::GaussianBlur(values, smooth, {}, kNoiseSigma);
  cv::blur(smooth, mean, {kLocalSide, kLocalSide});
  cv::blur(smooth.mul(smooth), square, {kLocalSide, kLocalSide});
  cv::Mat deviation = cv::max(square - mean.mul(mean), 0) + kLocalNoise * kLocalNoise;
  cv::sqrt(deviation, deviation);
  cv::Mat((smooth - mean) / deviation).convertTo(result, CV_8U, kLocalGain, 128);
  return result;
}

}  // namespace

std::vector<ImageLevel> image_levels(cv::Mat gray, PixelMap map) {
  std::vector<ImageLevel> levels;
  while (true) {
    levels.push_back({normalised(gray), map});
    if (std::max(gray.cols, gray.rows) / 2 < kSmallest) return levels;
    cv::Mat half;
    cv::resize(gray, half, {gray.cols / 2, gray.rows / 2}, 0, 0, cv::INTER_AREA);
    const double across = static_cast<double>(half.cols) / gray.cols,
                 down = static_cast<double>(half.rows) / gray.rows;
    map = {map.scale_x * across, map.scale_y * down, map.pad_x * across, map.pad_y * down};
    gray = half;
  }
}

Eigen::Matrix2f PatchWarp::jacobian() const {
  const Eigen::Vector2f normal = at.head<2>() / at.z();
  const float r2 = normal.squaredNorm();
  Eigen::Matrix2f by_normal = (2 * (distortion[0] + 2 * r2 * distortion[1])) * normal * normal.transpose();
  by_normal.diagonal().array() += 1 + r2 * (distortion[0] + r2 * distortion[1]);
  const Eigen::Matrix2f normal_slopes = (slopes.topRows<2>() - normal * slopes.row(2)) / at.z();
  return focal.asDiagonal() * by_normal * normal_slopes;
}

PatchWarp PatchWarp::affine(const Eigen::Vector2f& at, const Eigen::Matrix2f& slopes) {
  PatchWarp warp;
  warp.at = at.homogeneous();
  warp.slopes << slopes, Eigen::RowVector2f::Zero();
  return warp;
}

FoundPatch find_patch(const std::vector<ImageLevel>& here, const Eigen::Vector2f& pixel,
                      const std::vector<ImageLevel>& there, const PatchWarp& warp, LevelRange levels) {
  FoundPatch result;
  const Eigen::Matrix2f slopes = warp.jacobian();
  const double zoom = std::sqrt(std::abs(slopes.determinant()));
  Eigen::Vector2f shift = Eigen::Vector2f::Zero();  // of the original
  const int last = static_cast<int>(here.size()) - 1;
  int failures = 0;  // levels on which nothing was found
  for (int l = std::min(levels.coarsest, last); l >= std::min(levels.finest, last); --l) {
    const bool finest = l == std::min(levels.finest, last);
    const ImageLevel& level = here[static_cast<std::size_t>(l)];
    const Eigen::Vector2f at = to_level(level.map, pixel), scale = scale_of(level.map);
    const ImageLevel& other = level_like(there, zoom / level.map.scale_x);
    Template wanted;
    const bool usable = wanted.make(level.image, at.x(), at.y());
    if (!usable && finest) return result;
    if (!usable) continue;
    const SeenWindow seen(level, other, warp);
    Shift found{shift.cwiseProduct(scale), 0};
    const bool settled = settle(wanted, seen, finest ? kUnlikeAtLast : kUnlike, found);
    if (!settled) {
      if (finest || ++failures > 1) return result;
      continue;
    }
    shift = found.by.cwiseQuotient(scale);
    if (!finest) continue;
    result.shift = shift;
    result.pixel = warp(Eigen::Vector2f::Zero()) + slopes * shift;
    result.correlation = 1 - found.squares / 2;
    const Eigen::Matrix2f stretch = slopes * scale.cwiseInverse().asDiagonal();
    result.covariance =
        (found.squares * static_cast<float>(kNoiseArea) * stretch * wanted.inverse * stretch.transpose())
            .cast<double>();
  }
  return result;
}

}  // namespace vggt
