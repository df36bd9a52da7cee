#include <ATen/Parallel.h>

#include <algorithm>

#include "weights/scenes/launch.h"
#include "weights/scenes/render.h"

namespace vggt::scenes {
namespace {

Mask first_bits(int count) {
  Mask mask{};
  for (int i = 0; i < count; ++i) mask.words[i / 32] |= 1u << (i % 32);
  return mask;
}

void render_tile(const RenderParams<float>& p, int frame, int left, int top) {
  const int b = frame / p.frames_per_scene;
  const Scene scene{p.surroundings + b, p.materials + static_cast<int64_t>(b) * p.material_rows,
                    p.primitives + static_cast<int64_t>(b) * p.primitive_rows};
  const Camera& camera = p.cameras[frame];
  const int count = static_cast<int>(scene.surroundings->primitives);
  const Cone cone = tile_cone(camera, left, top, p.height, p.width);
  Mask seen{};
  for (int i = 0; i < count; ++i) {
    if (may_see(cone, scene.primitives[i])) seen.words[i / 32] |= 1u << (i % 32);
  }
  const Mask all = first_bits(count);
  for (int y = top; y < std::min(top + kTile, p.height); ++y) {
    for (int x = left; x < std::min(left + kTile, p.width); ++x) {
      render_pixel(p, scene, camera, seen, all, frame, x, y);
    }
  }
}

}  // namespace

void render_cpu(const RenderParams<float>& p) {
  const int columns = (p.width + kTile - 1) / kTile, rows = (p.height + kTile - 1) / kTile;
  at::parallel_for(0, static_cast<int64_t>(p.frames) * rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int column = 0; column < columns; ++column) {
        render_tile(p, static_cast<int>(k / rows), column * kTile, static_cast<int>(k % rows) * kTile);
      }
    }
  });
}

}  // namespace vggt::scenes
