#include "attention/stream/cuda_keys.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "attention/cuda/cuda_check.h"
#include "attention/stream/row_copy.h"

namespace vggt {
namespace {

constexpr CudaCheck check{"attention_lean"};

/// Starts the copy of a chunk from the host. LibTorch's copy would first make a strided chunk contiguous in
/// pageable memory.
void copy_rows(const at::Tensor& to, const at::Tensor& from, cudaStream_t stream) {
  std::vector<CopyDim> dims;
  for (int64_t i = 0; i < to.dim(); ++i) dims.push_back({to.size(i), to.stride(i), from.stride(i)});
  const RowCopy copy = plan_row_copy(std::move(dims));
  const int64_t bytes = to.element_size();
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  // cudaMemcpy2D takes no pitch of 2 GiB or more.
  const bool long_rows = std::max(copy.to_pitch, copy.from_pitch) * bytes > std::numeric_limits<int>::max();
  for (const auto& [to_first, from_first] : copy.groups) {
    for (int64_t row = 0; long_rows && row < copy.rows; ++row) {
      check(cudaMemcpyAsync(target + (to_first + row * copy.to_pitch) * bytes,
                            source + (from_first + row * copy.from_pitch) * bytes, copy.width * bytes,
                            cudaMemcpyHostToDevice, stream),
            "copying keys and values");
    }
    if (long_rows) continue;
    check(cudaMemcpy2DAsync(target + to_first * bytes, copy.to_pitch * bytes, source + from_first * bytes,
                            copy.from_pitch * bytes, copy.width * bytes, copy.rows, cudaMemcpyHostToDevice,
                            stream),
          "copying keys and values");
  }
}

/// A dense buffer for `keys` keys. Its dimensions have the source's order, so that copies are long.
at::Tensor buffer_like(const at::Tensor& source, int64_t keys, at::Device device) {
  const auto options = at::TensorOptions().device(device);
  return at::empty_like(source.narrow(2, 0, keys), options, at::MemoryFormat::Preserve);
}

}  // namespace

CudaKeys::CudaKeys(const KeyChunks& all, at::Device device, bool timed)
    : all_(all),
      from_host_(all.k.is_cpu()),
      guard_(device),
      compute_(c10::cuda::getCurrentCUDAStream(device.index())) {
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  start_ = Event(flags);
  end_ = Event(flags);
  for (int64_t i = 0; i < all.count(); ++i)
    events_.push_back({Event(flags), Event(flags), Event(flags), Event(flags)});
  start_.record(compute_);
  if (!from_host_) return;
  pinned_ = all.k.is_pinned() && all.v.is_pinned();
  for (int64_t i = 0; i < std::min<int64_t>(2, all.count()); ++i)
    buffers_[i] = {buffer_like(all.k, all.size(i), device), buffer_like(all.v, all.size(i), device)};
  copies_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
  start_.block(*copies_);  // the buffers' memory may still be in use there
  start_copy(0);
}

CudaKeys::~CudaKeys() {
  // On an error, copies may be under way: the buffers and the host's memory stay until they are done.
  if (copies_) cudaStreamSynchronize(copies_->stream());
}

KeyValue CudaKeys::buffer_of(int64_t chunk) const {
  const KeyValue& whole = buffers_[chunk % 2];
  const int64_t keys = all_.size(chunk);
  return {whole.k.narrow(2, 0, keys), whole.v.narrow(2, 0, keys)};
}

void CudaKeys::start_copy(int64_t chunk) {
  if (chunk >= all_.count()) return;
  if (chunk >= 2) events_[chunk - 2].done.block(*copies_);
  const KeyValue to = buffer_of(chunk), from = chunk_of(all_, chunk);
  events_[chunk].copy_begin.record(*copies_);
  copy_rows(to.k, from.k, copies_->stream());
  copy_rows(to.v, from.v, copies_->stream());
  events_[chunk].copied.record(*copies_);
}

KeyValue CudaKeys::begin_chunk(int64_t chunk) {
  if (from_host_) {
    // A copy from pageable memory makes the host wait: end_chunk() starts it, behind the computation.
    if (pinned_) start_copy(chunk + 1);
    events_[chunk].copied.block(compute_);
  }
  events_[chunk].ready.record(compute_);
  return from_host_ ? buffer_of(chunk) : chunk_of(all_, chunk);
}

void CudaKeys::end_chunk(int64_t chunk) {
  events_[chunk].done.record(compute_);
  if (from_host_ && !pinned_) start_copy(chunk + 1);
}

void CudaKeys::finish(LeanTimes* times) {
  end_.record(compute_);
  if (from_host_) events_.back().copied.synchronize();
  if (!times) return;
  end_.synchronize();
  *times = {};
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& before = i == 0 ? start_ : events_[i - 1].done;
    if (from_host_) {
      times->wait_ms += before.elapsed_time(events_[i].ready);
      times->copy_ms += events_[i].copy_begin.elapsed_time(events_[i].copied);
    }
  }
  times->total_ms = start_.elapsed_time(end_);
  times->compute_ms = times->total_ms - times->wait_ms;
}

}  // namespace vggt
