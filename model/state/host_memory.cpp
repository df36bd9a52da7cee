#include "model/state/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <vector>
#ifdef VGGT_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;

/// Makes the pages exist, on several threads: the system clears them, which is most of the time of locking.
[[maybe_unused]] void touch(char* memory, std::size_t bytes) {
  const std::size_t most = std::min<std::size_t>(16, std::max(1u, std::thread::hardware_concurrency()));
  const std::size_t parts = std::clamp<std::size_t>(bytes / (64 * kHugePage), 1, most);
  std::vector<std::jthread> threads;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto work = [=] {
      for (std::size_t i = bytes / parts * part; i < (part + 1 == parts ? bytes : bytes / parts * (part + 1));
           i += kPage)
        static_cast<volatile char*>(memory)[i] = 0;
    };
    try {
      threads.emplace_back(work);
    } catch (const std::exception&) {  // there is no thread
      work();
    }
  }
}

}  // namespace

at::Tensor host_tensor(at::IntArrayRef shape, at::ScalarType type, [[maybe_unused]] bool pinned) {
  [[maybe_unused]] const int64_t count = c10::multiply_integers(shape);
  const auto options = at::TensorOptions().dtype(type);
#ifdef VGGT_CUDA
  if (pinned && count > 0) {
    const std::size_t bytes =
        (static_cast<std::size_t>(count) * c10::elementSize(type) + kPage - 1) / kPage * kPage;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    touch(static_cast<char*>(memory), bytes);
    const bool locked = cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess;
    if (!locked) cudaGetLastError();  // or LibTorch would report it at its next launch, as its own
    return at::from_blob(
        memory, shape,
        [bytes, locked](void* p) {
          if (locked) cudaHostUnregister(p);
          ::munmap(p, bytes);
        },
        options);
  }
#endif
  return at::empty(shape, options);
}

}  // namespace vggt
