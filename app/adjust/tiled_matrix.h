#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace vggt {

/// The lower triangle of a symmetric matrix, made of blocks of 6 × 6 that are gathered in dense tiles of
/// kTile blocks. Tiles that hold nothing take no memory: of a video, whose frames share points with near ones
/// only, little is left.
class TiledMatrix {
 public:
  static constexpr int kBlock = 6, kTile = 8, kSide = kBlock * kTile;
  using Tile = Eigen::Matrix<double, kSide, kSide>;
  using Block = Eigen::Matrix<double, kBlock, kBlock>;

  /// A matrix of `blocks` rows of blocks, all tiles empty.
  explicit TiledMatrix(int blocks);

  int blocks() const { return blocks_; }
  int rows() const { return kSide * tiles_; }                        // with those that fill the last tile
  std::size_t bytes() const { return pool_.size() * sizeof(Tile); }  // of the tiles; there is at least one
  /// Of the tiles once factorise() has made those that fill in.
  std::size_t factor_bytes() const;
  /// Makes the tile of a block, of zeros; then the block may be used. Needs row >= column.
  void make(int row, int column);
  Eigen::Block<Tile, kBlock, kBlock> block(int row, int column) {
    const auto place = static_cast<std::size_t>(places_[index(row / kTile, column / kTile)]);
    is_zero_[place] = false;
    return pool_[place].template block<kBlock, kBlock>(kBlock * (row % kTile), kBlock * (column % kTile));
  }
  /// Where the block's first number lies; columns lie kSide apart. Null where its tile is empty. set_zero()
  /// and add() may miss what is written there.
  double* place(int row, int column) {
    Tile* const all = tile(row / kTile, column / kTile);
    return all ? &(*all)(kBlock * (row % kTile), kBlock * (column % kTile)) : nullptr;
  }
  void set_zero();
  /// Adds those with the same tiles in their order, on several threads, as far as they were written through
  /// block().
  void add(const std::vector<const TiledMatrix*>& others);
  /// Multiplies the diagonal, and puts ones where it is 0: unknowns of which nothing is known stay.
  void damp(double factor);

  /// Makes this the factor L of itself, L·Lᵀ. Makes the tiles that fill in. Returns false where the matrix is
  /// not positive definite. Works on several threads; their number does not change the result.
  bool factorise();
  /// Solves L·Lᵀ·x = b. After factorise().
  Eigen::VectorXd solve(Eigen::VectorXd b) const;

 private:
  Tile* tile(int row, int column) {
    const int place = places_[index(row, column)];
    return place < 0 ? nullptr : &pool_[static_cast<std::size_t>(place)];
  }
  const Tile* tile(int row, int column) const {
    const int place = places_[index(row, column)];
    return place < 0 ? nullptr : &pool_[static_cast<std::size_t>(place)];
  }
  static std::size_t index(int row, int column) {
    const auto r = static_cast<std::size_t>(row);
    return r * (r + 1) / 2 + static_cast<std::size_t>(column);
  }
  void make_tile(int row, int column);
  /// Of each place whether it has a tile once those that fill in are there: rows that share a column.
  std::vector<bool> filled() const;

  int blocks_, tiles_;
  std::vector<int> places_;   // of each tile of the lower triangle in the pool; -1: empty
  std::deque<Tile> pool_;     // which grows without a copy
  std::deque<char> is_zero_;  // of each tile in the pool: nothing was written to it through block()
};

}  // namespace vggt
