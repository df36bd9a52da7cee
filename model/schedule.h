#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

namespace vggt {

/// Where a tensor of all frames lies while it is not worked on.
enum class Place {
  device,
  host,  // memory that a GPU can copy from while it computes
  file,  // of the scratch folder
};

/// What a run may take, bytes: of the device, of tensors alone; of the host, what the network keeps there. On
/// the CPU all is the host's. What comes of the network may take of the host later what it does not yet take
/// while the trunk or the dense heads run: these have so much more.
struct MemoryBudget {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  int64_t device = kUnlimited, host = kUnlimited;
  int64_t more_in_trunk = 0, more_in_heads = 0;
  std::optional<std::filesystem::path> scratch = {};  // folder of files for what the host cannot hold
};

/// How a run works: in pieces of how many frames, and where what it keeps lies. plan_memory() makes one.
struct Schedule {
  int64_t embed_frames = 1;        // that the patch embedder takes at once
  int64_t pass_frames = 1;         // that the row-wise halves of blocks take at once
  int64_t keep_frames = 1;         // whose tokens are projected for the dense heads at once
  int64_t dense_frames = 1;        // that a dense head takes at once, and the tracker's feature extractor
  Place residual = Place::device;  // the residual stream, and a layer's first half while it is kept
  Place maps = Place::device;      // what the dense heads read
  Place qkv = Place::device;       // of a global block; elsewhere attention streams them
  bool stream_weights = false;     // block by block from the host, and each head for its stage alone
  int64_t attention_bytes = 0;     // on the device for streamed attention
  std::filesystem::path scratch;   // the folder of files; unused where none is
};

}  // namespace vggt
