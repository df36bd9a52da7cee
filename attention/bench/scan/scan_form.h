#pragma once

namespace vggt {

/// How a prefix scan over states is done. All give the same prefixes, but for rounding.
enum class ScanForm {
  recurrence,  // one state after another: the definition
  two_level,   // Hillis-Steele in a block, Blelloch across blocks
  chunked,     // totals of chunks, their recurrence, and a recurrence within each chunk
  cub_block,   // as two_level, with CUB's scan in a block; CUDA only
  cub_device,  // CUB's scan of a whole device; CUDA only
};

}  // namespace vggt
