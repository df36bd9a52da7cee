#include "app/adjust/tiled_matrix.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <opencv2/core/utility.hpp>

#include "io/files/clones.h"

namespace vggt {
namespace {

/// c -= a·bᵀ of tiles, column after column. Plain loops, of which the compiler makes vectors that stay in
/// registers.
VGGT_CLONES void subtract_product_in_loops(const double* __restrict a, const double* __restrict b,
                                           double* __restrict c) {
  constexpr int kSide = TiledMatrix::kSide, kRows = 8, kColumns = 4;
  for (int row = 0; row < kSide; row += kRows) {
    for (int column = 0; column < kSide; column += kColumns) {
      double sums[kColumns][kRows];
      for (int j = 0; j < kColumns; ++j) {
        for (int i = 0; i < kRows; ++i) sums[j][i] = c[(column + j) * kSide + row + i];
      }
      for (int k = 0; k < kSide; ++k) {
        for (int j = 0; j < kColumns; ++j) {
          for (int i = 0; i < kRows; ++i) sums[j][i] -= a[k * kSide + row + i] * b[k * kSide + column + j];
        }
      }
      for (int j = 0; j < kColumns; ++j) {
        for (int i = 0; i < kRows; ++i) c[(column + j) * kSide + row + i] = sums[j][i];
      }
    }
  }
}

/// The same for AVX-512, with three times as many sums in registers as the compiler finds by itself. (With
/// `auto` the pointers would lose the type's alignment.)
VGGT_AVX512 void subtract_product_in_eights(const double* __restrict a, const double* __restrict b,
                                            double* __restrict c) {
  using Eight __attribute__((vector_size(64), aligned(8), may_alias)) = double;
  constexpr int kSide = TiledMatrix::kSide, kVectors = 3, kColumns = 4;
  for (int row = 0; row < kSide; row += 8 * kVectors) {
    for (int column = 0; column < kSide; column += kColumns) {
      Eight sums[kColumns][kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        const Eight* own = reinterpret_cast<const Eight*>(c + (column + j) * kSide + row);
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) sums[j][i] = own[i];
      }
      for (int k = 0; k < kSide; ++k) {
        const Eight* left = reinterpret_cast<const Eight*>(a + k * kSide + row);
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 4
          for (int i = 0; i < kVectors; ++i) sums[j][i] -= left[i] * b[k * kSide + column + j];
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        Eight* own = reinterpret_cast<Eight*>(c + (column + j) * kSide + row);
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) own[i] = sums[j][i];
      }
    }
  }
}

void subtract_product(const double* a, const double* b, double* c) {
  static const bool in_eights = runs_avx512();
  in_eights ? subtract_product_in_eights(a, b, c) : subtract_product_in_loops(a, b, c);
}

}  // namespace

TiledMatrix::TiledMatrix(int blocks)
    : blocks_(blocks), tiles_((blocks + kTile - 1) / kTile), places_(index(tiles_, 0), -1) {
  for (int i = 0; i < tiles_; ++i) make_tile(i, i);
}

void TiledMatrix::make_tile(int row, int column) {
  int& place = places_[index(row, column)];
  if (place >= 0) return;
  place = static_cast<int>(pool_.size());
  pool_.emplace_back(Tile::Zero());
  is_zero_.push_back(true);
}

void TiledMatrix::make(int row, int column) {
  make_tile(row / kTile, column / kTile);
}

void TiledMatrix::set_zero() {
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (!is_zero_[i]) pool_[i].setZero();
    is_zero_[i] = true;
  }
}

void TiledMatrix::add(const std::vector<const TiledMatrix*>& others) {
  cv::parallel_for_({0, static_cast<int>(pool_.size())}, [&](const cv::Range& range) {
    for (auto i = static_cast<std::size_t>(range.start); i < static_cast<std::size_t>(range.end); ++i) {
      for (const TiledMatrix* other : others) {
        if (other->is_zero_[i]) continue;
        pool_[i] += other->pool_[i];
        is_zero_[i] = false;
      }
    }
  });
}

void TiledMatrix::damp(double factor) {
  for (int i = 0; i < tiles_; ++i) {
    is_zero_[static_cast<std::size_t>(places_[index(i, i)])] = false;
    for (double& value : tile(i, i)->diagonal().reshaped()) value = value > 0 ? factor * value : 1;
  }
}

std::vector<bool> TiledMatrix::filled() const {
  std::vector<bool> made(places_.size());
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = places_[i] >= 0;
  for (int column = 0; column < tiles_; ++column) {
    int parent = -1;  // the first row below, whose column takes over what this one fills
    for (int row = column + 1; row < tiles_; ++row) {
      if (!made[index(row, column)]) continue;
      if (parent < 0) parent = row;
      made[index(row, parent)] = true;
    }
  }
  return made;
}

std::size_t TiledMatrix::factor_bytes() const {
  return static_cast<std::size_t>(std::ranges::count(filled(), true)) * sizeof(Tile);
}

bool TiledMatrix::factorise() {
  const std::vector<bool> made = filled();
  std::vector<std::vector<int>> below(static_cast<std::size_t>(tiles_)),
      before(below);  // of each column, row
  for (int column = 0; column < tiles_; ++column) {
    for (int row = column + 1; row < tiles_; ++row) {
      if (!made[index(row, column)]) continue;
      make_tile(row, column);
      below[static_cast<std::size_t>(column)].push_back(row);
      before[static_cast<std::size_t>(row)].push_back(column);
    }
  }
  std::ranges::fill(is_zero_, false);
  // tile(row, column) -= tile(row, other) · tile(column, other)ᵀ
  const auto subtract = [this](int row, int column, int other) {
    subtract_product(tile(row, other)->data(), tile(column, other)->data(), tile(row, column)->data());
  };
  for (int column = 0; column < tiles_; ++column) {
    const std::vector<int>& rows = below[static_cast<std::size_t>(column)];
    // The next column's diagonal is made ready meanwhile, but for what this column takes off it.
    const int next = column + 1 < tiles_ ? column + 1 : -1;
    Tile& diagonal = *tile(column, column);
    if (column > 0 && tile(column, column - 1)) subtract(column, column, column - 1);
    const Eigen::LLT<Eigen::Ref<Tile>> factor(diagonal);
    if (factor.info() != Eigen::Success) return false;
    const int tasks = static_cast<int>(rows.size()) + (next >= 0 ? 1 : 0);
    cv::parallel_for_({0, tasks}, [&](const cv::Range& range) {
      for (int i = range.start; i < range.end; ++i) {
        const bool is_diagonal = i == static_cast<int>(rows.size());
        const int row = is_diagonal ? next : rows[static_cast<std::size_t>(i)],
                  at = is_diagonal ? next : column;
        for (const int other : before[static_cast<std::size_t>(at)]) {
          if (other < column && tile(row, other)) subtract(row, at, other);
        }
        if (is_diagonal) continue;
        diagonal.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(
            *tile(row, column));
      }
    });
  }
  return true;
}

Eigen::VectorXd TiledMatrix::solve(Eigen::VectorXd b) const {
  const auto part = [&](int i) { return b.segment<kSide>(static_cast<Eigen::Index>(kSide) * i); };
  for (int column = 0; column < tiles_; ++column) {
    auto own = part(column);
    tile(column, column)->triangularView<Eigen::Lower>().solveInPlace(own);
    for (int row = column + 1; row < tiles_; ++row) {
      if (const Tile* here = tile(row, column)) part(row).noalias() -= *here * own;
    }
  }
  for (int column = tiles_ - 1; column >= 0; --column) {
    auto own = part(column);
    for (int row = column + 1; row < tiles_; ++row) {
      if (const Tile* here = tile(row, column)) own.noalias() -= here->transpose() * part(row);
    }
    tile(column, column)->triangularView<Eigen::Lower>().transpose().solveInPlace(own);
  }
  return b;
}

}  // namespace vggt
