#pragma once
#include <cuda_runtime_api.h>

#include <optional>

namespace vggt {

/// What this build has of a kernel for the current device; nothing where it has no code for it.
std::optional<cudaFuncAttributes> built_code(const void* kernel);

}  // namespace vggt
