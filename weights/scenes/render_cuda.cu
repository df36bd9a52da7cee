#include <cuda_fp16.h>

#include "weights/scenes/launch.h"
#include "weights/scenes/render.h"

namespace vggt::scenes {
namespace {

constexpr int kThreads = kTile * kTile;
static_assert(kThreads >= kMaxPrimitives && kMaxPrimitives % 32 == 0);

template <typename Row>
__device__ void copy_rows(Row* to, const Row* from, int count) {
  const int values = count * static_cast<int>(sizeof(Row) / sizeof(float));
  for (int i = threadIdx.x; i < values; i += kThreads) {
    reinterpret_cast<float*>(to)[i] = reinterpret_cast<const float*>(from)[i];
  }
}

// One block per tile. Materials stay in global memory: each ray reads one of them, once.
__global__ void __launch_bounds__(kThreads, 3) render_kernel(const RenderParams<__half> p, int columns) {
  __shared__ Primitive primitives[kMaxPrimitives];
  __shared__ Surroundings surroundings;
  __shared__ Camera camera;
  __shared__ Mask seen, all;
  const int frame = blockIdx.x, b = frame / p.frames_per_scene;
  const int left = static_cast<int>(blockIdx.y) % columns * kTile,
            top = static_cast<int>(blockIdx.y) / columns * kTile;
  const int count = static_cast<int>(p.surroundings[b].primitives);
  copy_rows(&surroundings, p.surroundings + b, 1);
  copy_rows(&camera, p.cameras + frame, 1);
  copy_rows(primitives, p.primitives + static_cast<int64_t>(b) * p.primitive_rows, count);
  __syncthreads();
  if (threadIdx.x < kMaxPrimitives) {
    const int i = threadIdx.x;
    const Cone cone = tile_cone(camera, left, top, p.height, p.width);
    const uint32_t see = __ballot_sync(~0u, i < count && may_see(cone, primitives[i]));
    const uint32_t use = __ballot_sync(~0u, i < count);
    if (i % 32 == 0) {
      seen.words[i / 32] = see;
      all.words[i / 32] = use;
    }
  }
  __syncthreads();
  const int x = left + threadIdx.x % kTile, y = top + threadIdx.x / kTile;
  if (x >= p.width || y >= p.height) return;
  const Scene scene{&surroundings, p.materials + static_cast<int64_t>(b) * p.material_rows, primitives};
  render_pixel(p, scene, camera, seen, all, frame, x, y);
}

}  // namespace

int render_cuda(const RenderParams<uint16_t>& params, void* stream) {
  const RenderParams<__half> p{
      params.surroundings,  params.materials,      params.primitives,
      params.cameras,       params.frames,         params.frames_per_scene,
      params.material_rows, params.primitive_rows, params.height,
      params.width,         params.samples,        reinterpret_cast<__half*>(params.images),
      params.depth,         params.valid};
  const int columns = (p.width + kTile - 1) / kTile, rows = (p.height + kTile - 1) / kTile;
  const dim3 grid(p.frames, columns * rows);
  render_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p, columns);
  return cudaGetLastError();
}

}  // namespace vggt::scenes
