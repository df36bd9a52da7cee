#pragma once
#include <filesystem>
#include <vector>

#include "app/batch/batch_table.h"

namespace vggt {

/// Writes RESULTS/index.html: the scenes, with links to the pages that --report wrote. Throws
/// std::system_error if the file cannot be written.
void write_batch_index(const std::filesystem::path& results, const std::vector<SceneRow>& rows);

}  // namespace vggt
