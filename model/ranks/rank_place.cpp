#include "model/ranks/rank_place.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace vggt {
namespace {

using Get = std::function<const char*(const char*)>;

std::optional<std::string> text_of(const Get& get, const char* name) {
  const char* value = get(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

int64_t number_of(const Get& get, const char* name, int64_t least, int64_t most) {
  const auto text = text_of(get, name);
  if (!text)
    throw std::invalid_argument(std::string(name) + ": not set, beside the other variables of a rank");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || *end != '\0' || value < least || value > most) {
    throw std::invalid_argument(std::string(name) + ": expected a number from " + std::to_string(least) +
                                " to " + std::to_string(most) + ", got '" + *text + "'");
  }
  return value;
}

constexpr int64_t kMostRanks = 65536;

RankPlace ranks_and_local(const Get& get, const char* rank, const char* ranks, const char* local) {
  RankPlace place;
  place.ranks = number_of(get, ranks, 1, kMostRanks);
  place.rank = number_of(get, rank, 0, place.ranks - 1);
  place.local_rank = number_of(get, local, 0, kMostRanks);
  return place;
}

/// The first name of a list such as "gpu[03-07,9],big1" or "rack[0-1]_blade[2,4]".
std::string first_node(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    const size_t end = std::min(list.find_first_of(",["), list.size());
    name += list.substr(0, end);
    list.remove_prefix(end);
    if (list.empty() || list.front() == ',') break;
    const std::string_view inside = list.substr(1);
    name += inside.substr(0, inside.find_first_of(",-]"));
    list.remove_prefix(std::min(list.find(']'), list.size() - 1) + 1);
  }
  return name;
}

/// A port that the steps of other jobs on the node do not have.
uint16_t port_of_job(int64_t job, int64_t step) {
  constexpr int64_t kFirst = 20'000, kPorts = 40'000, kSteps = 7919;
  return static_cast<uint16_t>(kFirst + (job + step * kSteps) % kPorts);
}

RankPlace place_in_slurm(const Get& get) {
  RankPlace place = ranks_and_local(get, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID");
  const auto address = text_of(get, "MASTER_ADDR"), nodes = text_of(get, "SLURM_STEP_NODELIST");
  if (!address && !nodes) throw std::invalid_argument("SLURM_STEP_NODELIST: not set, nor is MASTER_ADDR");
  place.host = address ? *address : first_node(*nodes);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 2;
  place.port =
      text_of(get, "MASTER_PORT")
          ? static_cast<uint16_t>(number_of(get, "MASTER_PORT", 1, 65535))
          : port_of_job(
                number_of(get, "SLURM_JOB_ID", 0, kMost) % 1'000'000'007,
                text_of(get, "SLURM_STEP_ID") ? number_of(get, "SLURM_STEP_ID", 0, kMost) % 1'000'003 : 0);
  return place;
}

}  // namespace

std::optional<RankPlace> rank_place(const Get& get) {
  // A batch script may set WORLD_SIZE and MASTER_* for what srun starts, which then tells the ranks.
  const bool in_step = text_of(get, "SLURM_STEP_NUM_TASKS") && text_of(get, "SLURM_PROCID");
  if (text_of(get, "WORLD_SIZE") || text_of(get, "RANK")) {
    const int64_t ranks = number_of(get, "WORLD_SIZE", 1, kMostRanks);
    if (ranks == 1) return std::nullopt;
    if (in_step && !text_of(get, "RANK")) {
      RankPlace place = place_in_slurm(get);
      if (place.ranks == ranks) return place;
      throw std::invalid_argument("WORLD_SIZE: is " + std::to_string(ranks) + ", and srun has started " +
                                  std::to_string(place.ranks) + " tasks");
    }
    RankPlace place = ranks_and_local(get, "RANK", "WORLD_SIZE", "LOCAL_RANK");
    const auto host = text_of(get, "MASTER_ADDR");
    if (!host) throw std::invalid_argument("MASTER_ADDR: not set, beside the other variables of a rank");
    place.host = *host;
    place.port = static_cast<uint16_t>(number_of(get, "MASTER_PORT", 1, 65535));
    place.store_is_there = text_of(get, "TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    return place;
  }
  // A batch script, which is one process of a job of many tasks, has no number of tasks of a step.
  if (!in_step) return std::nullopt;
  if (number_of(get, "SLURM_STEP_NUM_TASKS", 1, kMostRanks) == 1) return std::nullopt;
  return place_in_slurm(get);
}

}  // namespace vggt
