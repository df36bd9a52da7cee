#include "io/files/memory_room.h"

#include <sys/mman.h>

#include <algorithm>

namespace vggt {

bool has_room_for(std::size_t bytes) {
  constexpr std::size_t kToWorkWith = std::size_t{256} << 20;
  constexpr std::size_t kMost = std::size_t{1} << 30;  // a header may promise anything
  const std::size_t wanted = std::min(bytes, kMost) + kToWorkWith;
  void* const room = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, wanted);
  return true;
}

}  // namespace vggt
