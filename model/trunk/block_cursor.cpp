#include "model/trunk/block_cursor.h"

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
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

  /// When a copy began and ended; when the computation came to wait for it, and went on.
  struct Times {
    c10::cuda::CUDAEvent begun{cudaEventDefault}, copied{cudaEventDefault}, asked{cudaEventDefault},
        went_on{cudaEventDefault};
    bool waited = false;
  };
  std::vector<Times> times;
  std::vector<std::size_t> last;  // of each block, in times
  int64_t bytes = 0;
#endif
};

BlockCursor::BlockCursor(const HeldBlocks& blocks, [[maybe_unused]] at::Device device, bool keep)
    : blocks_(blocks), keep_(keep), open_(blocks.size()) {
#ifdef VGGT_CUDA
  if (!device.is_cuda() || blocks.empty() || !blocks.front().on_host()) return;
  copies_ = std::make_unique<Copies>(device);
  copies_->loaded.resize(blocks.size());
  copies_->last.resize(blocks.size());
#endif
}

BlockCursor::~BlockCursor() {
#ifdef VGGT_CUDA
  // The blocks' memory belongs to the copies' stream: the next copy into it must not begin before the last
  // use.
  if (!copies_) return;
  try {
    copies_->used.record(c10::cuda::getCurrentCUDAStream(copies_->stream.device_index()));
    copies_->used.block(copies_->stream);
  } catch (const std::exception&) {  // the device is lost, and with it all that a copy could spoil
  }
#endif
}

void BlockCursor::load(std::size_t i) {
  if (open_[i]) return;
#ifdef VGGT_CUDA
  if (copies_) {
    copies_->used.record(c10::cuda::getCurrentCUDAStream(copies_->stream.device_index()));
    copies_->used.block(copies_->stream);
    const c10::cuda::CUDAStreamGuard guard(copies_->stream);
    Copies::Times times;
    times.begun.record(copies_->stream);
    open_[i] = blocks_[i].open();
    times.copied.record(copies_->stream);
    copies_->loaded[i].record(copies_->stream);
    copies_->times.push_back(std::move(times));
    copies_->last[i] = copies_->times.size() - 1;
    copies_->bytes += blocks_[i].host_bytes();
    return;
  }
#endif
  open_[i] = blocks_[i].open();
}

Overlap BlockCursor::overlap() const {
  Overlap sum;
#ifdef VGGT_CUDA
  if (!copies_ || copies_->times.empty()) return sum;
  c10::cuda::device_synchronize();
  const Copies::Times *first = nullptr, *last = nullptr;
  for (const Copies::Times& times : copies_->times) {
    sum.copy_ms += times.begun.elapsed_time(times.copied);
    if (!times.waited) continue;
    sum.wait_ms += times.asked.elapsed_time(times.went_on);
    first = first ? first : &times;
    last = &times;
  }
  if (first) sum.total_ms = first->asked.elapsed_time(last->went_on);
  sum.bytes = copies_->bytes;
#endif
  return sum;
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
  if (copies_) {
    const auto now = c10::cuda::getCurrentCUDAStream(copies_->stream.device_index());
    Copies::Times& times = copies_->times[copies_->last[i]];
    if (!times.waited) times.asked.record(now);
    copies_->loaded[i].block(now);
    if (!times.waited) times.went_on.record(now);
    times.waited = true;
  }
#endif
  return *open_[i];
}

}  // namespace vggt
