#pragma once
// Where attention_lean() takes its keys from: chunk after chunk, with a clock. On the CPU they lie there, and
// a GPU's come by a stream of their own.

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "attention/stream/lean.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace vggt {

/// All keys and values, and how they are cut. There is at least one chunk, which may be empty.
struct KeyChunks {
  at::Tensor k, v;  // [B,A,Nk,D]
  int64_t eta = 1;

  int64_t count() const { return std::max<int64_t>(1, (k.size(2) + eta - 1) / eta); }
  int64_t first(int64_t chunk) const { return chunk * eta; }
  int64_t size(int64_t chunk) const { return std::min(eta, k.size(2) - first(chunk)); }
};

struct KeyValue {
  at::Tensor k, v;  // [B,A,n,D]
};

inline KeyValue chunk_of(const KeyChunks& all, int64_t chunk) {
  return {all.k.narrow(2, all.first(chunk), all.size(chunk)),
          all.v.narrow(2, all.first(chunk), all.size(chunk))};
}

class CpuKeys {
 public:
  explicit CpuKeys(const KeyChunks& all) : all_(all) {}

  /// The chunk to attend to. After it come end_chunk(), and finish() after the last.
  KeyValue begin_chunk(int64_t chunk) const { return chunk_of(all_, chunk); }
  void end_chunk(int64_t) {}
  /// Fills in the times where they are wanted.
  void finish(LeanTimes* times) const;

 private:
  KeyChunks all_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

#ifdef VGGT_CUDA
/// Keys of the device where they lie, and those of the host by way of two buffers.
class CudaKeys {
 public:
  CudaKeys(const KeyChunks& all, at::Device device, bool timed);
  CudaKeys(const CudaKeys&) = delete;
  CudaKeys& operator=(const CudaKeys&) = delete;
  ~CudaKeys();

  KeyValue begin_chunk(int64_t chunk);
  void end_chunk(int64_t chunk);
  void finish(LeanTimes* times);

 private:
  using Event = c10::cuda::CUDAEvent;
  struct ChunkEvents {
    Event copy_begin, copied;  // on the stream of the copies
    Event ready, done;         // on that of the computation
  };

  void start_copy(int64_t chunk);
  KeyValue buffer_of(int64_t chunk) const;

  KeyChunks all_;
  bool from_host_ = false, pinned_ = false;
  c10::cuda::CUDAGuard guard_;
  c10::cuda::CUDAStream compute_;
  std::optional<c10::cuda::CUDAStream> copies_;  // with keys of the host
  std::array<KeyValue, 2> buffers_;
  Event start_, end_;
  std::vector<ChunkEvents> events_;
};
#endif

}  // namespace vggt
