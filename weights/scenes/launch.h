#pragma once
// The two ways to run the renderer and the damage to its images; operators.cpp chooses.
#include "weights/scenes/scene.h"

namespace vggt::scenes {

void render_cpu(const RenderParams<float>& params);
void damage_cpu(const DamageParams<float>& params);

// Half precision as its 16 bits. `stream` is a cudaStream_t. Return the launch's cudaError_t.
int render_cuda(const RenderParams<uint16_t>& params, void* stream);
int damage_cuda(const DamageParams<uint16_t>& params, void* stream);

}  // namespace vggt::scenes
