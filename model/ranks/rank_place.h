#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace vggt {

/// A process's place among those that work on one scene, and where they meet.
struct RankPlace {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0;  // among the ranks of its machine: the index of its GPU
  std::string host;        // of rank 0
  uint16_t port = 0;
  bool store_is_there = false;  // somebody else, such as torchrun, serves the store there; else rank 0 does
};

/// As torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) or a step of Slurm (SLURM_PROCID and
/// so on) says; nothing for a process on its own. get: as getenv(). Throws std::invalid_argument for what is
/// incomplete or no number.
std::optional<RankPlace> rank_place(const std::function<const char*(const char* name)>& get);

}  // namespace vggt
