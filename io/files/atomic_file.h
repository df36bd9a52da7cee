#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>

namespace vggt {

/// Writes a file through `body` to a temporary name beside it, then renames: a crash leaves the old file or
/// the new one, and a failure leaves nothing behind. The stream can be sought. What `body` throws passes
/// through. Throws std::system_error naming the path if anything cannot be written (full disk, limits, no
/// permission, a path that is a folder or a device). For file size limits the caller must ignore SIGXFSZ.
void write_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& body);

}  // namespace vggt
