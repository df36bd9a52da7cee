#include "app/batch/shard.h"

#include <stdexcept>
#include <string_view>

#include "io/files/numbers.h"

namespace vggt {

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash != text.npos) {
    const auto index = parse_number<int64_t>(std::string_view(text).substr(0, slash));
    const auto count = parse_number<int64_t>(std::string_view(text).substr(slash + 1));
    if (index && count && *index >= 1 && *index <= *count) return {*index - 1, *count};
  }
  throw std::invalid_argument("shard: '" + text.substr(0, 80) +
                              "' is not a share such as 2/4, from 1/4 to 4/4");
}

std::optional<Shard> slurm_shard(const std::function<const char*(const char* name)>& variable) {
  const auto number = [&](const char* name) -> std::optional<int64_t> {
    const char* const text = variable(name);
    return text ? parse_number<int64_t>(text) : std::nullopt;
  };
  const auto id = number("SLURM_ARRAY_TASK_ID"), count = number("SLURM_ARRAY_TASK_COUNT");
  if (!id || !count) return std::nullopt;
  const int64_t first = number("SLURM_ARRAY_TASK_MIN").value_or(0);
  const int64_t step = number("SLURM_ARRAY_TASK_STEP").value_or(1);
  const int64_t offset = *id - first;
  if (step >= 1 && offset >= 0 && offset % step == 0 && offset / step < *count)
    return Shard{offset / step, *count};
  throw std::invalid_argument("SLURM_ARRAY_TASK_ID: " + std::to_string(*id) + " is no share of an array of " +
                              std::to_string(*count) + " from " + std::to_string(first) +
                              " on; number the tasks without gaps, or give --shard i/n");
}

}  // namespace vggt
