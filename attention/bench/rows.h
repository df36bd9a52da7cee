#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace vggt {

/// Takes a row of results as it comes: numbers by name, null where there is none. One with "left_out" was not
/// measured: it has the names of what it would have been, and says why.
using ShowRow = std::function<void(const nlohmann::ordered_json& row)>;

inline void leave_out(const ShowRow& show, nlohmann::ordered_json row, const std::string& why) {
  row["left_out"] = why;
  show(row);
}

}  // namespace vggt
