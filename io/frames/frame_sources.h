#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/frames/frames.h"

namespace vggt {

enum class SourceKind { folder, image, list, video, tensor_file, memory };

/// What a source of frames is, by its kind of file and its extension. A pipe, or a text file with another
/// extension, is a list. Throws std::invalid_argument if it does not exist or is none of these.
SourceKind kind_of_source(const std::filesystem::path& source);

/// Of the options' source, paths or images.
SourceKind kind_of_source(const FrameOptions& options);

/// Bytes that decoding a video takes beside the frames that are kept, about; 0 where it cannot be opened.
int64_t decoder_bytes(const std::filesystem::path& video);

/// Images that a folder or a list names; nobody has looked into the files yet. Of each, only the name is
/// held: there may be very many.
struct ImageList {
  std::filesystem::path source, folder;  // names are relative to the folder
  std::vector<std::string> names;        // in a folder the file names, in a list as the list spells them
  std::vector<int> lines;                // of a list, from 1

  std::filesystem::path path(std::size_t i) const { return folder / names[i]; }
  /// For messages: the path, or the list, its line and the name.
  std::string where(std::size_t i) const;
};

/// The images of a folder (in natural order), of a list (in its order), or the one image file.
/// Throws std::invalid_argument if there are none, std::system_error if the folder or list cannot be read.
ImageList find_images(const std::filesystem::path& source, SourceKind kind);

/// Whether a comes before b in an order where digits compare as numbers: 2 before 10.
bool natural_less(std::string_view a, std::string_view b);

/// At most max_count of the positions [0, count), evenly from the first to the last; without it, all of them.
std::vector<std::size_t> choose_evenly(std::size_t count, std::optional<int> max_count);

}  // namespace vggt
