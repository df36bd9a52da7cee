#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>

namespace vggt {

/// Writes a file: `body` fills a temporary file beside it, which is then renamed. A crash leaves the old file
/// or the new one, and a failure leaves the old one and nothing else. The stream can seek. Throws what `body`
/// throws, and std::system_error naming the path if the file cannot be written (full disk, limits, no
/// permission, a path that is a folder or a device). A process with a file size limit must ignore SIGXFSZ.
void write_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& body);

}  // namespace vggt
