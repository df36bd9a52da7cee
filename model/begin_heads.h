#pragma once
#include <future>
#include <optional>

#include "model/heads/camera_head.h"
#include "model/heads/dpt_head.h"
#include "model/state/held_part.h"
#include "model/vggt.h"

// On a GPU LibTorch loads cuBLAS, cuDNN and every kernel when they are first needed, half a second in all.
// These have heads work once on blank input while the rest of a model loads and a first run begins, each on a
// thread of its own that ends before the future does. On a CPU they do nothing. Errors are left to the run,
// which meets them again.
namespace vggt {

/// A product as in the trunk, then the camera head, where there is one and its weights are on the device.
std::future<void> begin_products(const ModelOptions& options, const Config& config,
                                 const std::optional<HeldPart<CameraHead>>& camera);
/// The dense head in bf16; where it is in fp32, which takes products, or its weights wait on the host, a
/// convolution.
std::future<void> begin_convolutions(const ModelOptions& options, const Config& config,
                                     const std::optional<HeldPart<DptHead>>& dense);

}  // namespace vggt
