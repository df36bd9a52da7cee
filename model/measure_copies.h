#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>

#include "model/rates.h"

namespace vggt {

/// Sets the rates of copies between pinned host memory and a GPU; nothing for the CPU.
void measure_copies(at::Device device, Rates& rates);

/// Bytes that measure_scratch() writes.
inline constexpr int64_t kScratchMeasured = int64_t{64} << 20;

/// Sets the rates of a scratch folder's files: written until they are on the disk, read past the system's
/// cache. Leaves no file. Throws std::system_error where the folder cannot be written.
void measure_scratch(const std::filesystem::path& folder, Rates& rates);

}  // namespace vggt
