#pragma once
#include <ATen/ATen.h>

namespace vggt {

/// Uninitialised memory of the host [shape], contiguous, page-locked for copies from and to a GPU where
/// `pinned` and the system allows it; else ordinary memory. Of exactly its bytes: LibTorch's own pinned
/// memory is rounded up to a power of two and kept. Throws std::bad_alloc.
at::Tensor host_tensor(at::IntArrayRef shape, at::ScalarType type, bool pinned);

}  // namespace vggt
