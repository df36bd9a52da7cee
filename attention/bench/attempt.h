#pragma once
#include <functional>
#include <string>

namespace vggt {

/// Calls act(), which may run out of memory or be refused by LibTorch. Returns the failure in one line, or an
/// empty string. After a failure, memory that LibTorch keeps for later is given back.
std::string attempt(const std::function<void()>& act);

}  // namespace vggt
