#pragma once
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <optional>
#include <vector>

#include "attention/stream/key_chunks.h"
#include "attention/stream/lean.h"

namespace vggt {

/// The chunks of keys that lie on the device, or on the host: these are copied to two buffers in turn, on a
/// stream of their own.
class CudaKeys {
 public:
  CudaKeys(const KeyChunks& all, at::Device device, bool timed);
  CudaKeys(const CudaKeys&) = delete;
  CudaKeys& operator=(const CudaKeys&) = delete;
  ~CudaKeys();

  /// Chunk number `chunk`, on the device, for the work that the current stream is given next. Chunks are
  /// asked for in order; end_chunk() follows when that work has been given, and finish() after the last.
  KeyValue begin_chunk(int64_t chunk);
  void end_chunk(int64_t chunk);
  /// Waits until the host's keys have been read, and where times are wanted (`times` not null), until all is
  /// done.
  void finish(LeanTimes* times);

 private:
  using Event = c10::cuda::CUDAEvent;
  struct ChunkEvents {
    Event copy_begin, copied;  // on copies_
    Event ready, done;         // on compute_
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

}  // namespace vggt
