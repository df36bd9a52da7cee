#pragma once
#include <stdexcept>
#include <string>

namespace vggt {

/// The message of the std::invalid_argument that `act` throws.
template <class Act>
std::string refusal(Act&& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace vggt
