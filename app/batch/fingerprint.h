#pragma once
#include <filesystem>
#include <string>

#include "app/options/options.h"

namespace vggt {

/// What a scene's result depends on, as sums that differ when it changes.
struct Fingerprint {
  std::string frames;   // names, sizes and times of the frames' files, and of those that options name
  std::string options;  // all but where things lie, what runs them and how much memory that may take
  std::string weights;  // size and time of the file, and of a config beside it

  bool operator==(const Fingerprint&) const = default;
};

/// Of a scene with its own options. Files that cannot be looked at are part of the sum as well, so that it
/// changes when they can be.
Fingerprint fingerprint_of(const Options& options, const std::filesystem::path& weights);

/// What differs, in words such as "frames, options"; empty: nothing.
std::string changes(const Fingerprint& before, const Fingerprint& now);

}  // namespace vggt
