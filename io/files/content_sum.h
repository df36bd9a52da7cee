#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace vggt {

/// Files up to this size are summed whole by sampled_sum().
inline constexpr uint64_t kSummedWhole = uint64_t{16} << 20;

/// A file's size and the CRC-32 of its contents, read by up to eight threads. All of them call `check`, where
/// there is one, now and then: what it throws ends the sum. Throws as InputFile, too.
std::string content_sum(const std::filesystem::path& path, const std::function<void()>& check = {});

/// The same; of a larger file than kSummedWhole, of 64 parts all over it.
std::string sampled_sum(const std::filesystem::path& path);

}  // namespace vggt
