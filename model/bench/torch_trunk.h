#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <set>
#include <vector>

#include "model/bench/torch_block.h"
#include "model/config.h"
#include "model/observer.h"

namespace vggt {

/// The trunk of VGGT as PyTorch computes it, of LibTorch's operations alone: DINOv2, then frame-wise and
/// global blocks in turns, each on all frames at once (vggt/models/aggregator.py).
class TorchTrunk {
 public:
  TorchTrunk(Binder& bind, const Config& config);

  /// Takes the tokens [S,P,2C] after one of the kept layers.
  using Keep = std::function<void(int64_t layer, const at::Tensor& tokens)>;
  /// images [S,3,H,W] in [0,1], state type. Ends with the last of `kept`.
  void run(const at::Tensor& images, const std::set<int64_t>& kept, const Keep& keep,
           const Observer& observer) const;

 private:
  at::Tensor position_embedding(int64_t rows, int64_t columns) const;  // [1,rows·columns,C]
  at::Tensor embed(const at::Tensor& images) const;                    // -> patches [S,p,C]

  Config config_;
  at::Tensor cls_token_, register_tokens_, pos_embed_;  // of DINOv2: [1,1,C], [1,R,C], [1,1 + grid·grid,C]
  TorchConv proj_;
  std::vector<TorchBlock> vit_blocks_;
  TorchNorm vit_norm_;
  at::Tensor camera_token_, frame_registers_;  // [1,2,1,C], [1,2,R,C]: of the first frame, of all others
  std::vector<TorchBlock> frame_blocks_, global_blocks_;
};

}  // namespace vggt
