#pragma once
#include <future>
#include <vector>

#include "model/model_options.h"

namespace vggt {

/// Has LibTorch load what it loads on the first use of a GPU, on threads of their own: cuBLAS, and cuDNN where
/// the model has convolutions. On a CPU nothing happens. Errors are left to the run, which meets them again.
std::vector<std::future<void>> warm_up(const ModelOptions& options);

}  // namespace vggt
