#include "attention/bench/attempt.h"

#include <ATen/ATen.h>
#ifdef VGGT_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <new>
#include <stdexcept>

namespace vggt {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

bool means_memory(const std::string& what) {
  return what.find("out of memory") != std::string::npos ||
         what.find("can't allocate memory") != std::string::npos;
}

void release_memory() {
#ifdef VGGT_CUDA
  if (at::hasCUDA()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

}  // namespace

std::string attempt(const std::function<void()>& act) {
  std::string failure;
  try {
    act();
  } catch (const std::bad_alloc&) {
    failure = "out of memory";
  } catch (const c10::OutOfMemoryError&) {
    failure = "out of memory";
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    failure = means_memory(what) ? "out of memory" : "refused: " + first_line(what);
  } catch (const std::runtime_error& error) {  // cuDNN's own
    failure = "refused: " + first_line(error.what());
  }
  if (!failure.empty()) release_memory();
  return failure;
}

}  // namespace vggt
