#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace vggt {

/// Files up to this size are summed whole by sampled_sum().
inline constexpr uint64_t kSummedWhole = uint64_t{16} << 20;

/// A file's size and the CRC-32 of its contents, read by up to eight threads. Throws as InputFile.
std::string content_sum(const std::filesystem::path& path);

/// The same; of a larger file than kSummedWhole, of 64 parts all over it.
std::string sampled_sum(const std::filesystem::path& path);

}  // namespace vggt
