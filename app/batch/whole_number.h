#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace vggt {

/// A whole number out of a text that anybody may have changed. Throws std::out_of_range for another value:
/// JSON's own conversion takes 1e300 for one.
inline int64_t whole_number(const nlohmann::ordered_json& json) {
  if (!json.is_number_integer()) throw std::out_of_range("not a whole number");
  return json.get<int64_t>();
}

}  // namespace vggt
