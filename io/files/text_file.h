#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace vggt {

/// The whole of a regular file. Throws std::system_error naming the path if it cannot be read, and
/// std::invalid_argument if it is no regular file or holds more than `max_bytes`: then it is "larger than N, not
/// `what`", such as "a file of options".
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes, const std::string& what);

}  // namespace vggt
