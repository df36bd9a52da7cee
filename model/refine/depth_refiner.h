#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/layers/conv.h"
#include "model/refine/evidence.h"
#include "model/state/binder.h"

namespace vggt {

/// How the tensors of a refiner begin, in the checkpoint of the network whose depth it refines.
inline constexpr std::string_view kRefinerPrefix = "depth_refiner.";
/// Of a checkpoint's tensors those of the refiner, and those of the network.
TensorShapes refiner_shapes(const TensorShapes& all);
TensorShapes network_shapes(const TensorShapes& all);

/// Corrects depth maps by what other frames show, once cameras are exact (weights/train/refiner.py): at
/// depths around a pixel's own, features of frames are compared there where the others would see it, and so
/// are their depths. A small network makes of that, of image and depth what the depth's logarithm changes
/// by, also to the nearest or the farthest depth around, and how sharp edges are. It works at a quarter of
/// the frames' size; maps are given back at full size. In fp32, on a CPU: beside
/// 16 cores a GPU is slower, and loading its kernels takes 400 MB (tests/BENCHMARKS.md).
class DepthRefiner {
 public:
  /// Throws std::invalid_argument for tensors that are missing, misshapen or left over.
  static void check(const TensorShapes& shapes);
  /// Throws as check().
  static DepthRefiner load(const TensorSource& source);
  /// Pixels of a frame, a side, that a pixel of its maps stands for.
  static constexpr int64_t kBlock = 4;

  /// What is kept of a frame: h and w are a quarter of its sides, rounded up.
  struct Frame {
    at::Tensor context;    // [1,c,h,w]
    at::Tensor matching;   // what is compared: RefinerMaps::features
    at::Tensor log_depth;  // [1,16,h,w], channels last: of the pixels of each 4×4 block
    at::Tensor middle;     // [1,1,h,w]: the median of each block
    at::Tensor shown;      // [1,1,h,w]: the same, not a number where the block tells other frames nothing
  };
  /// image [3,H,W] in [0,1], depth [H,W]: values that are not above 0 and finite count as very near. Its unit
  /// is that of the transfers, and such that most values are near 1. used [H,W]: 0 where a mask is black,
  /// what lies there tells other frames nothing; undefined: there is none.
  Frame look(const at::Tensor& image, const at::Tensor& depth, const at::Tensor& used = {}) const;

  /// How many other frames it looks at, at most: those that tell most should come first.
  static constexpr std::size_t kMostSources = 6;
  struct Source {
    const Frame* frame;
    RefinerTransfer transfer;
  };
  /// The corrected depth [H,W] of what look() saw; values that count as none stay. confidence [H,W]; rays
  /// [2,h·w]: x and y of the point (x, y, 1) of the camera's space that shows in the middle of each 4×4
  /// block, at (4·column + 1.5, 4·row + 1.5).
  at::Tensor refine(const Frame& frame, const at::Tensor& image, const at::Tensor& depth,
                    const at::Tensor& confidence, const at::Tensor& rays,
                    const std::vector<Source>& sources) const;

 private:
  /// Two 3×3 convolutions with ReLUs, the first with this stride.
  struct Pair {
    Conv2d first, second;
    Pair(Binder& bind, const std::string& name, int64_t in, int64_t out, int64_t stride = 1);
    at::Tensor operator()(const at::Tensor& x) const;
  };
  /// The widths of its layers, read off the tensors.
  struct Widths;
  struct Product {
    at::Tensor weight, bias;  // [out,in], [out]
  };
  DepthRefiner(Binder& bind, const Widths& widths);
  /// What the sources say of each depth, [1,scores·D,h,w], channels last.
  at::Tensor evidence(const Frame& frame, const at::Tensor& rays, const std::vector<Source>& sources) const;

  /// The logarithms of the depth of pixels, [4h,4w]: mixed by what the last layer makes of seen [1,s,h,w].
  /// change, none [1,1,h,w]: what blocks change by, and which have no depth.
  at::Tensor mixed(const at::Tensor& seen, const Frame& frame, const at::Tensor& none,
                   const at::Tensor& change) const;
  /// The last layer with rows by choice and pixel, [12·16,s], as mix_pixels() takes it; its bias holds what
  /// is added to the logarithms. Nothing without tensors.
  static std::optional<Linear> by_choice(const Conv2d& sharpen);

  int64_t groups_;      // of matching features
  at::Tensor offsets_;  // [D], of the depth's logarithm
  Pair to_half_, to_quarter_, to_eighth_;
  Conv2d from_eighth_, from_quarter_, matching_;
  Product score_in_, score_out_;
  Conv2d gather_;
  Pair enter_, down_, deepest_, up_, leave_;
  Conv2d change_, sharpen_in_;
  std::optional<Linear> sharpen_out_;
};

}  // namespace vggt
