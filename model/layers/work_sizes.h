#pragma once
#include <algorithm>
#include <cstdint>

// How much the layers take at one time. Arithmetic alone: memory_plan.h counts with the same numbers.
namespace vggt {

/// Elements of one call of LayerNorm. LibTorch 2.11's CUDA kernel goes wrong from 2^32 on (pytorch#181555).
inline constexpr int64_t kNormElements = int64_t{1} << 31;

/// Rows of tokens that a block's norms and products take at once on a GPU: all of them would need a hidden
/// layer four times as wide as the tokens. Products of this many rows run at full speed: 132 tiles of 128
/// rows, as many as an H100 or H200 has multiprocessors, so that no product ends in a wave of few tiles.
inline constexpr int64_t kBlockRows = 132 * 128;
/// The same on a CPU, whose caches then hold a piece. The C library gives memory of up to 32 MB, such as the
/// hidden layer of these rows of VGGT-1B, to the next piece without asking the system for pages.
inline constexpr int64_t kBlockRowsCpu = 12 * 128;

/// The same for blocks of any width: no tensor of one call, the hidden layer included, passes kNormElements.
constexpr int64_t block_rows(int64_t dim, bool gpu) {
  return std::clamp<int64_t>(kNormElements / (4 * dim), 1, gpu ? kBlockRows : kBlockRowsCpu);
}

/// Whole frames of so many tokens that a block's norms and products take at once; at least one.
constexpr int64_t block_frames(int64_t dim, int64_t tokens, bool gpu) {
  return std::max<int64_t>(1, block_rows(dim, gpu) / tokens);
}

/// Bytes of the parts of x in a split product: those of the hidden layer of kBlockRows tokens of VGGT-1B.
/// More rows at a time give no more speed.
inline constexpr int64_t kSplitPieceBytes = kBlockRows * 4096 * 4;

/// Bytes of the unfolded windows of a convolution by products, or of the parts of one by split products.
inline constexpr int64_t kConvPieceBytes = int64_t{256} << 20;

/// What decides how a convolution is computed.
struct ConvLayer {
  int64_t in = 0, out = 0, kernel = 0, stride = 1;
  bool fp32 = false, tf32 = false;  // the type of all operands; whether its products may be TF32
  bool wgmma = false;               // the GPU has Hopper's tensor cores, and this build code for them
};

/// Whether fp32 split into fp16 can compute this convolution, and is the faster way to.
constexpr bool split_conv_pays(const ConvLayer& layer) {
  constexpr int64_t kFewestOut = 32;  // a tile has 128: with fewer most of it is idle
  return layer.fp32 && !layer.tf32 && layer.wgmma && layer.stride == 1 && layer.kernel > 1 &&
         layer.in % 128 == 0 && layer.out % 2 == 0 && layer.out >= kFewestOut;
}

/// Scores of tokens against tokens, where merging looks for the most similar ones.
inline constexpr int64_t kMatchScores = int64_t{1} << 26;

/// Of the sources that match_screened() leaves so many at once are compared by their scores.
inline constexpr int64_t kLeftSources = 128;

}  // namespace vggt
