#pragma once
#include <cstdint>
#include <optional>

#include "model/model_options.h"

namespace vggt {

/// The settings that LibTorch and OpenCV keep for the whole process. The program makes them here, each once,
/// before the work that depends on it; the libraries make none.
///
/// Threads for computing; 0 leaves one for each usable core. Where `ulimit -v` sets a limit they share two of
/// malloc's arenas.
void set_process_threads(int64_t threads);
/// Whether LibTorch's matrix products may be TF32: with precision tf32 alone.
void set_process_precision(Precision precision);

/// Where the host's memory is limited, by the options or by `ulimit -v`: what is freed goes back to the
/// system, however large the blocks were that were freed before.
void set_process_host_memory(bool limited);

/// The most that LibTorch may reserve on a GPU, bytes; nothing: all there is. Before anything is allocated
/// there.
void set_process_gpu_memory(at::Device device, const std::optional<int64_t>& bytes);

}  // namespace vggt
