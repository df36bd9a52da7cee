#include "model/trunk/block_cursor.h"

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace vggt {

/// The stream that weights are copied on, and what waits for what.
struct BlockCursor::Copies {
#ifdef VGGT_CUDA
  explicit Copies(at::Device device) : stream(c10::cuda::getStreamFromPool(false, device.index())) {}
  c10::cuda::CUDAStream stream;
  c10::cuda::CUDAEvent used;
  std::vector<c10::cuda::CUDAEvent> loaded;  // of each block
#endif
};

BlockCursor::BlockCursor(const HeldBlocks& blocks, [[maybe_unused]] at::Device device, bool keep)
    : blocks_(blocks), keep_(keep), open_(blocks.size()) {
#ifdef VGGT_CUDA
  if (!device.is_cuda() || blocks.empty() || !blocks.front().on_host()) return;
  copies_ = std::make_unique<Copies>(device);
  copies_->loaded.resize(blocks.size());
#endif
}

BlockCursor::~BlockCursor() {
#ifdef VGGT_CUDA
  // The blocks' memory belongs to the copies' stream: the next copy into it must not begin before the last
  // use.
  if (!copies_) return;
  copies_->used.record(c10::cuda::getCurrentCUDAStream(copies_->stream.device_index()));
  copies_->used.block(copies_->stream);
#endif
}

void BlockCursor::load(std::size_t i) {
  if (open_[i]) return;
#ifdef VGGT_CUDA
  if (copies_) {
    copies_->used.record(c10::cuda::getCurrentCUDAStream(copies_->stream.device_index()));
    copies_->used.block(copies_->stream);
    const c10::cuda::CUDAStreamGuard guard(copies_->stream);
    open_[i] = blocks_[i].open();
    copies_->loaded[i].record(copies_->stream);
    return;
  }
#endif
  open_[i] = blocks_[i].open();
}

const Block& BlockCursor::at(std::size_t i) {
  if (!blocks_[i].on_host()) {
    open_[i] = blocks_[i].open();
    return *open_[i];
  }
  const std::size_t next = (i + 1) % blocks_.size();
  for (std::size_t other = 0; !keep_ && other < open_.size(); ++other) {
    if (other != i && other != next) open_[other].reset();
  }
  load(i);
  load(next);
#ifdef VGGT_CUDA
  if (copies_) copies_->loaded[i].block(c10::cuda::getCurrentCUDAStream(copies_->stream.device_index()));
#endif
  return *open_[i];
}

}  // namespace vggt
