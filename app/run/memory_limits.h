#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "app/options/options.h"
#include "io/files/host_storage.h"
#include "model/memory_plan.h"

namespace vggt {

enum class NcclBuffers;

/// Bytes of frames and maps: at once at most; of them those that are there while the network's trunk runs,
/// and while its dense heads do.
struct StoredBytes {
  StoredBytes(int64_t bytes) : all(bytes), in_trunk(bytes), in_heads(bytes) {}
  StoredBytes(int64_t all, int64_t in_trunk, int64_t in_heads)
      : all(all), in_trunk(in_trunk), in_heads(in_heads) {}

  int64_t all, in_trunk, in_heads;
};

/// What the parts of a run may take, so that the process keeps the limits that the options set.
struct MemoryLimits {
  MemoryBudget network;
  HostStorage storage;                   // of frames and depth maps
  std::optional<int64_t> gpu_allocator;  // what LibTorch may reserve on the GPU, where --gpu-memory is set
  std::optional<int64_t> host;           // --host-memory
  int64_t parts = 1;                     // of which a batch gives this run one
  /// Where that is set: what images of their own size may take at once, which are read before the network
  /// runs and written after it, when of the network only the weights are held.
  int64_t images = MemoryBudget::kUnlimited;
  StoredBytes stored = 0;  // frames and maps, where all of them must lie in memory
  int64_t least = 0;       // megabytes of --host-memory that the images alone need

  /// Where --host-memory is set without a scratch folder: frames and maps may all lie in memory, and images
  /// have what is left, the network what is left while it runs. A later call takes the place of an earlier
  /// one.
  void hold_in_memory(const StoredBytes& bytes);
  /// What the network may take where it, frames and maps share so many bytes.
  MemoryBudget network_of(int64_t shared) const;
  /// What frames, maps and the network share of --host-memory, and what of it the network would have if
  /// frames and maps could lie in files.
  int64_t shared() const;
  int64_t for_network() const;
  /// What so many bytes for one image ask of --host-memory, such as 1430 and "1430MB".
  int64_t host_megabytes_for(int64_t image_bytes) const;
  std::string host_memory_for(int64_t image_bytes) const;
};

/// Of a GPU without --gpu-memory the network may take what is free, and the `loaded` bytes of weights that
/// are there already. ranks: how many share the run; the limits are each one's. Throws std::invalid_argument
/// for limits that not even the program itself keeps, and for --gpu-memory without a GPU.
MemoryLimits choose_limits(const Options& options, at::Device device, int64_t loaded = 0, int64_t ranks = 1);

/// What NCCL takes of the host where ranks share a run, in bytes.
inline constexpr int64_t kHostNcclBytes = 380'000'000;
/// Few where the options limit the GPU's memory.
NcclBuffers nccl_buffers(const Options& options);

/// Takes the weights that the host holds during the whole run from what images may take.
void keep_weights(MemoryLimits& limits, int64_t bytes);

/// The least --host-memory, such as "780MB", within whose limits the network's plan fits, at least
/// what images need; nothing without one, and where none helps. request: with sizes; its budget for the GPU
/// stays. or_exact: where it merges, exact attention would do as well, and its budget is named if that is
/// hardly larger.
std::optional<std::string> least_host_memory(const MemoryLimits& limits, const MemoryRequest& request,
                                             bool or_exact);

/// How many threads work at a time with this --threads: of 0 as many as there are cores, and never more.
int64_t working_threads(int64_t threads);
/// What the tables and stack of each take, and of each thread beyond them.
inline constexpr int64_t kThreadBytes = 4'000'000, kIdleThreadBytes = 400'000;

/// Gives back to the system what the allocator has free between blocks in use: about 100 MB after a network
/// on the CPU, up to 200 MB after an adjustment.
void give_back_memory();

/// What this process has in memory now.
int64_t resident_bytes();
/// The same when it was first asked for, or a run first planned: the code and tables of the libraries, and
/// what the program holds that loaded this one as a library.
int64_t program_bytes();
/// What CUDA's libraries take of it: 0 where the executable has left them out, as no GPU is used.
int64_t cuda_library_bytes();
/// Bytes of the host's memory that are free, or that a control group or `ulimit -v` leaves; nothing where
/// that is not known.
std::optional<int64_t> free_host_bytes();

/// What images that become frames may take at once: all that images may, but no more than a gigabyte or so.
std::size_t decoding_bytes(const MemoryLimits& limits);

}  // namespace vggt
