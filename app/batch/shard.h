#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace vggt {

/// The share of the scenes that one of several processes takes: every count-th, from the index-th on.
struct Shard {
  int64_t index = 0, count = 1;

  bool has(std::size_t scene) const { return static_cast<int64_t>(scene) % count == index; }
};

/// Of a text i/n, with i from 1 to n. Throws std::invalid_argument.
Shard parse_shard(const std::string& text);

/// Of a task in a Slurm array, by the variables SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _STEP; nothing outside
/// of one. `variable` is std::getenv. Throws std::invalid_argument where the array's numbers have gaps that
/// differ, so that they tell no share.
std::optional<Shard> slurm_shard(const std::function<const char*(const char* name)>& variable);

}  // namespace vggt
