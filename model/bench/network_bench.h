#pragma once
#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/model_options.h"

namespace vggt {

/// The network that is measured, with random weights, and its frames.
struct NetworkBench {
  Config config;
  ModelOptions options;           // without merging
  int64_t height = 0, width = 0;  // network pixels, multiples of the patch size
  std::vector<int64_t> lengths;   // numbers of frames, rising
};

}  // namespace vggt
