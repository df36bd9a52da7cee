#pragma once
#include <filesystem>
#include <vector>

#include "app/batch/manifest.h"
#include "app/run/reconstruct.h"

namespace vggt {

/// What a run wrote in its scene's folder, with sizes.
std::vector<OutputFile> outputs_in(const std::filesystem::path& folder,
                                   const std::vector<WrittenFile>& written);

/// Removes what an earlier run of the scene wrote and this one did not. Folders in which somebody has put
/// files stay.
void remove_outdated(const std::filesystem::path& folder, const std::vector<OutputFile>& before,
                     const std::vector<OutputFile>& now);

}  // namespace vggt
