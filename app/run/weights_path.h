#pragma once
#include <filesystem>

namespace vggt {

/// The weights that come with the program, found from where the program lies: share/vggt_recon/weights beside
/// an installed bin/, or weights/ in a folder above a build tree. Throws std::invalid_argument if there are
/// none.
std::filesystem::path default_weights();

}  // namespace vggt
