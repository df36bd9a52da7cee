#pragma once
#include <array>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/layers/conv.h"
#include "model/layers/layer_norm.h"
#include "model/layers/linear.h"
#include "model/layers/map_passes.h"

namespace vggt {

/// Which dense head it is.
struct DptSpec {
  std::string name;  // prefix in the checkpoint
  int64_t features;
  int64_t outputs;     // channels of the last convolution; 0: the head ends with its feature map
  int64_t down_ratio;  // the frames' size over the output's
  bool position_embedding;
};

/// The embeddings of places that a dense head adds to its maps; undefined in a head without.
struct DptPlaces {
  std::array<PlaceTables, 4> levels;  // to the patches of each level
  PlaceTables output;                 // to the resized map
};

/// Dense prediction from four layers of tokens (vggt/heads/dpt_head.py), on channels-last maps of the operand
/// type. Beside bf16 operands the tokens' norm, sums, biases, resizing and the last layer compute in fp32.
class DptHead {
 public:
  DptHead(Binder& bind, const Config& config, const DptSpec& spec);

  /// What the head reads of a picked layer (level 0 to 3): tokens [F,P,2C] of the state type -> patches
  /// [F,p,channels(level)] of the operand type.
  at::Tensor project(size_t level, const at::Tensor& tokens) const;
  at::ScalarType operand_type() const { return operand_type_; }
  int64_t channels(size_t level) const { return projects_[level].bias.size(0); }

  /// What forward() needs for frames of this size in pixels: the same for all of them.
  DptPlaces places(int64_t height, int64_t width) const;
  /// Projected patches of F frames from the four layers, and the frames' size in pixels ->
  /// [F,outputs,H,W] of the state type, or [F,features,H/down_ratio,W/down_ratio] of the operand type; not
  /// activated. On a GPU it only queues work.
  at::Tensor forward(const std::array<at::Tensor, 4>& patches, int64_t height, int64_t width,
                     const DptPlaces& places) const;

 private:
  struct ResidualUnit {
    Conv2d conv1, conv2;
    ResidualUnit(Binder& bind, const std::string& name, int64_t features);
    /// x, which is what ReLU puts out, plus two convolutions of it; `after` on top, with its own ReLU.
    at::Tensor operator()(const at::Tensor& x, const MapTerms& after = {}) const;
  };
  struct FusionBlock {
    std::vector<ResidualUnit> skip_unit;  // resConfUnit1; none in the deepest block
    ResidualUnit unit;                    // resConfUnit2
    Conv2d out_conv;
    FusionBlock(Binder& bind, const std::string& name, int64_t features, bool has_skip);
    /// skip may be overwritten; where the block has no skip_unit, x may be.
    at::Tensor operator()(at::Tensor x, at::Tensor skip, int64_t rows, int64_t columns) const;
  };

  at::Tensor reassemble(size_t level, const at::Tensor& patches, int64_t height, int64_t width,
                        const PlaceTables& places) const;
  Conv2d::Unbiased fuse(std::array<at::Tensor, 4> maps) const;

  DptSpec spec_;
  int64_t patch_size_, special_tokens_;
  LayerNorm norm_;
  at::TensorOptions options_;  // of the places' tables
  at::ScalarType operand_type_;
  std::vector<Linear> projects_;
  ConvTranspose2d up4_, up2_;
  Conv2d down_;
  std::vector<Conv2d> layer_rn_;
  FusionBlock refinenet1_, refinenet2_, refinenet3_, refinenet4_;
  Conv2d output_conv1_;
  struct Output {
    Conv2d conv;                // 3×3 to 32 channels
    at::Tensor weight, offset;  // 1×1 to the outputs: [outputs,32,1,1], [outputs], state type
    Output(Binder& bind, const DptSpec& spec);
  };
  std::vector<Output> output_conv2_;  // one, or none
};

/// Raw output [F,2,H,W] -> depth, confidence [F,H,W]; [F,4,H,W] -> points [F,H,W,3], confidence [F,H,W].
struct DenseOutput {
  at::Tensor values, confidence;
};
DenseOutput activate_depth(const at::Tensor& raw);
DenseOutput activate_points(const at::Tensor& raw);

}  // namespace vggt
