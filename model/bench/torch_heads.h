#pragma once
#include <array>
#include <vector>

#include "model/bench/torch_block.h"
#include "model/config.h"
#include "model/heads/dpt_head.h"

namespace vggt {

/// The camera head as PyTorch computes it, of LibTorch's operations alone (vggt/heads/camera_head.py).
class TorchCameraHead {
 public:
  TorchCameraHead(Binder& bind, const Config& config);
  /// tokens [S,2C] of the last layer -> pose encoding [S,9].
  at::Tensor forward(const at::Tensor& tokens) const;

 private:
  TorchNorm token_norm_, trunk_norm_;
  at::Tensor empty_pose_tokens_;  // [1,1,9]
  TorchLinear embed_pose_, modulation_;
  std::vector<TorchBlock> trunk_;
  TorchMlp pose_branch_;
};

/// A dense head with an output as PyTorch computes it, of LibTorch's operations alone
/// (vggt/heads/dpt_head.py).
class TorchDptHead {
 public:
  /// spec: outputs > 0.
  TorchDptHead(Binder& bind, const Config& config, const DptSpec& spec);
  /// Tokens [F,P,2C] of the four picked layers, and the frames' size in pixels -> [F,outputs,H,W], state
  /// type, not activated.
  at::Tensor forward(const std::array<at::Tensor, 4>& tokens, int64_t height, int64_t width) const;

 private:
  struct Unit {
    TorchConv conv1, conv2;
    Unit(Binder& bind, const std::string& name, int64_t features);
    at::Tensor operator()(const at::Tensor& x) const;
  };
  struct Fusion {
    std::vector<Unit> skip_unit;  // none in the deepest
    Unit unit;
    TorchConv out_conv;
    Fusion(Binder& bind, const std::string& name, int64_t features, bool has_skip);
    /// skip: undefined in the deepest.
    at::Tensor operator()(at::Tensor x, const at::Tensor& skip, int64_t rows, int64_t columns) const;
  };

  at::Tensor reassemble(std::size_t level, const at::Tensor& tokens, int64_t height, int64_t width) const;

  DptSpec spec_;
  int64_t patch_size_, special_tokens_;
  TorchNorm norm_;
  std::vector<TorchConv> projects_;
  TorchConv up4_, up2_, down_;
  std::vector<TorchConv> layer_rn_;
  Fusion refinenet1_, refinenet2_, refinenet3_, refinenet4_;
  TorchConv output_conv1_, output_conv2_, last_;  // the last one computes in the state type
};

}  // namespace vggt
