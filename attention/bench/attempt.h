#pragma once
#include <functional>
#include <string>

namespace vggt {

/// Does something that may run out of memory or be refused by LibTorch; returns what was wrong in one line,
/// nothing where it went well. Memory that LibTorch keeps for later is given back after a failure.
std::string attempt(const std::function<void()>& act);

}  // namespace vggt
