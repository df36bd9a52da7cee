#pragma once
#include <string_view>

namespace vggt {

/// A file of app/report/page/ by its name, as it was when the program was built. Throws std::logic_error for
/// others.
std::string_view page_asset(std::string_view name);

}  // namespace vggt
