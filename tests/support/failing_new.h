// An operator new that fails where a test wants it to. For one source file of a program.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace vggt::test {

/// Which of the process's allocations fail: those numbered [first, last), of `least` bytes or more.
inline std::atomic<int64_t> g_count, g_first, g_last;
inline std::atomic<std::size_t> g_least;

/// While it lives. The allocations are counted from its beginning.
struct Faults {
  Faults(int64_t first, int64_t last, std::size_t least) {
    g_count = 0;
    g_least = least;
    g_first = first;
    g_last = last;
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() { g_first = g_last = 0; }
};

}  // namespace vggt::test

// NOLINTBEGIN(cppcoreguidelines-no-malloc,misc-new-delete-overloads): this is the allocator
void* operator new(std::size_t size) {
  const bool counts = size >= vggt::test::g_least;
  const int64_t number = counts ? vggt::test::g_count++ : -1;
  if (counts && number >= vggt::test::g_first && number < vggt::test::g_last) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
/// Who asks so does without the memory, as std::stable_sort.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return std::malloc(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc,misc-new-delete-overloads)
