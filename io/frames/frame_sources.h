#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vggt {

enum class SourceKind { folder, image, list, video, tensor_file };

/// What --frames names, by its kind of file and its extension.
/// Throws std::invalid_argument if it does not exist or is none of these.
SourceKind kind_of_source(const std::filesystem::path& source);

/// An image of a folder or a list that may turn out not to be one.
struct ImageEntry {
  std::filesystem::path path;
  std::string name;   // as found: below the folder, or as the list spells it
  std::string where;  // for warnings: the path, or the list and its line
};

/// The images that a folder, a list or a single image file stands for, in sequence.
/// Throws std::invalid_argument if there are none, std::system_error if the folder or list cannot be read.
std::vector<ImageEntry> find_images(const std::filesystem::path& source, SourceKind kind);

/// Digits compare as numbers: 2 before 10.
bool natural_less(std::string_view a, std::string_view b);

/// Positions of at most max_count of count things: from the first to the last, evenly.
std::vector<std::size_t> choose_evenly(std::size_t count, std::optional<int> max_count);

}  // namespace vggt
