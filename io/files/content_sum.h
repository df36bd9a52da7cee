#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace vggt {

/// Files up to this size are summed whole.
inline constexpr uint64_t kSummedWhole = uint64_t{16} << 20;

/// A file's size and the CRC-32 of its contents; of a larger file than kSummedWhole, of 64 parts all over it.
/// Throws as InputFile.
std::string content_sum(const std::filesystem::path& path);

}  // namespace vggt
