#pragma once
#include <exception>

namespace vggt {

/// Whether an allocation has failed, of the device or of the host: LibTorch's, or of a library of CUDA, which
/// tell it by their texts; or a thread has found no memory, which looks like one that a limit of their number
/// forbids.
bool is_out_of_memory(const std::exception& error);
/// Whether it was the host's memory.
bool is_out_of_host_memory(const std::exception& error);

}  // namespace vggt
