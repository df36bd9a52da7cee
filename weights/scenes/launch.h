#pragma once
// The two ways to run the renderer; operators.cpp chooses.
#include "weights/scenes/scene.h"

namespace vggt::scenes {

void render_cpu(const RenderParams<float>& params);

// Half precision as its 16 bits. `stream` is a cudaStream_t. Returns the launch's cudaError_t.
int render_cuda(const RenderParams<uint16_t>& params, void* stream);

}  // namespace vggt::scenes
