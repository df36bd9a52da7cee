#include <cuda_fp16.h>

#include "weights/scenes/damage.h"
#include "weights/scenes/launch.h"

namespace vggt::scenes {
namespace {

// One block per tile; the tiles of a frame follow each other, so that halos are still in the cache.
__global__ void __launch_bounds__(kDamageThreads)
    damage_kernel(const DamageParams<__half> p, int columns, int tiles) {
  __shared__ DamageTile tile;
  const int frame = static_cast<int>(blockIdx.x) / tiles, place = static_cast<int>(blockIdx.x) % tiles;
  damage_tile(p, frame, place % columns * kDamageColumns, place / columns * kDamageRows, tile);
}

}  // namespace

int damage_cuda(const DamageParams<uint16_t>& params, void* stream) {
  const DamageParams<__half> p{params.amounts,
                               params.frames,
                               params.height,
                               params.width,
                               reinterpret_cast<const __half*>(params.images),
                               reinterpret_cast<__half*>(params.damaged)};
  const int columns = (p.width + kDamageColumns - 1) / kDamageColumns;
  const int tiles = columns * ((p.height + kDamageRows - 1) / kDamageRows);
  damage_kernel<<<p.frames * tiles, kDamageThreads, 0, static_cast<cudaStream_t>(stream)>>>(p, columns,
                                                                                            tiles);
  return cudaGetLastError();
}

}  // namespace vggt::scenes
