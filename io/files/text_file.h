#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace vggt {

/// The whole of a text file, or of a pipe such as a shell's <(...), without the byte order mark that editors
/// on Windows begin it with. Throws std::system_error naming the path
/// if it cannot be read, std::invalid_argument if it holds more than `max_bytes`: "PATH: larger than 64 KiB,
/// not `what`", where `what` is such as "a file of options".
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes, const std::string& what);

}  // namespace vggt
