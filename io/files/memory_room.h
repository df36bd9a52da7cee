#pragma once
#include <cstddef>

namespace vggt {

/// Whether the system would give this process so many bytes more, and some to work with. Where not, a library
/// that calls a file damaged may have had no memory for it.
bool has_room_for(std::size_t bytes);

}  // namespace vggt
