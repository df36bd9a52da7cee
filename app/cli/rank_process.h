#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/options/options.h"
#include "app/run/failure.h"
#include "model/ranks/nccl_group.h"

namespace vggt {

/// This process's place where torchrun, srun or start_ranks() has started it as one of several; nothing else.
/// Throws as rank_place().
std::optional<RankPlace> place_of_process();

/// The name of this rank's GPU, such as "cuda:1". asked: --device, where a list such as cuda:2,3 has a GPU
/// for each rank of a machine. Throws std::invalid_argument where it has none.
std::string device_of_rank(const RankPlace& place, const std::string& asked);

/// Meets the other ranks. Should the group be lost while this process waits for what never comes, it ends
/// after some seconds, with a line and exit status 3.
std::unique_ptr<NcclGroup> join_ranks(const RankPlace& place, const std::string& device, NcclBuffers buffers);

/// Starts this program once more for each of the GPUs and waits for all. A signal to stop is passed on.
/// Returns the exit status of the first rank, by number, that has failed, or that the run was stopped.
ExitCode start_ranks(const std::vector<int>& gpus);

}  // namespace vggt
