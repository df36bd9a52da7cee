#pragma once
#include <cstdint>
#include <functional>

#include "model/config.h"
#include "model/model_options.h"
#include "model/rates.h"

namespace vggt {

/// Bytes that measure_rates() takes on a GPU where it is not told otherwise, and half of those free at most.
/// Fewer tokens than fit here do not keep a large GPU busy: with 1 GiB rates of an H200 were twice too high.
inline constexpr int64_t kMeasureBytes = int64_t{4} << 30;

/// Times the parts of this architecture on random weights, by runs of networks that are as wide but have few
/// blocks; the weights themselves are not needed. Merging is measured whatever options.merge says, and of the
/// heads those in options.heads. About a second on a GPU. Keeps its tensors within max_bytes where one frame
/// fits, and gives the memory back. check_stop: called between runs; it may throw.
Rates measure_rates(const Config& config, const ModelOptions& options, int64_t max_bytes = kMeasureBytes,
                    const std::function<void()>& check_stop = {});

}  // namespace vggt
