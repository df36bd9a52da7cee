#pragma once
#include <filesystem>

namespace vggt {

/// The weights that come with the program or the library, found from where the one that holds this code lies:
/// share/vggt_recon/weights beside an installed bin/ or lib/, or weights/ in its folder or in one above, as of
/// a build tree. Throws std::invalid_argument if there are none.
std::filesystem::path default_weights();

}  // namespace vggt
