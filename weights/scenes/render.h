#pragma once
// One tile of one frame, the same on the CPU and on the GPU.
#include "weights/scenes/shade.h"

namespace vggt::scenes {

// Pixel (x, y) is the square of side 1 around (x, y), as VGGT's unprojection of depth maps has it.
VGGT_HD Vec3 pixel_direction(const Camera& c, float x, float y, int height, int width) {
  const float a = (x - 0.5f * width) / c.focal, b = (y - 0.5f * height) / c.focal;
  const float* r = c.rotation;
  return {r[0] * a + r[3] * b + r[6], r[1] * a + r[4] * b + r[7], r[2] * a + r[5] * b + r[8]};
}

struct Cone {
  Vec3 apex, axis;  // axis of length 1
  float cosine, sine;
};

// Around all rays of the tile whose first pixel is (x, y).
VGGT_HD Cone tile_cone(const Camera& c, int x, int y, int height, int width) {
  const float left = x - 0.5f, top = y - 0.5f, half = 0.5f * kTile;
  Cone cone{c.centre, normalised(pixel_direction(c, left + half, top + half, height, width)), 1, 0};
  for (int k = 0; k < 4; ++k) {
    const Vec3 corner =
        normalised(pixel_direction(c, left + (k & 1) * kTile, top + (k >> 1) * kTile, height, width));
    cone.cosine = fminf(cone.cosine, dot(corner, cone.axis));
  }
  cone.cosine -= 1e-5f;
  cone.sine = sqrtf(fmaxf(1 - cone.cosine * cone.cosine, 0));
  return cone;
}

VGGT_HD bool may_see(const Cone& cone, const Primitive& p) {
  const Vec3 to = p.centre - cone.apex;
  const float along = dot(to, cone.axis), across = sqrtf(fmaxf(dot(to, to) - along * along, 0));
  return across * cone.cosine - along * cone.sine <= p.bound * 1.001f + 1e-4f && along > -p.bound;
}

VGGT_HD float developed(float value, float gain, const Camera& c, uint32_t bits) {
  float toned = powf(fmaxf(value * gain, 1e-5f), c.gamma);
  if (toned > 0.75f) toned = 1 - 0.25f * expf(3 - 4 * toned);  // bright things keep some of their texture
  // The sum of four bytes: close to normal, with deviation 0.577.
  const float noise = ((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) / 255.0f - 2;
  return clamp(toned + c.noise * 1.732f * noise, 0, 1);
}

template <typename Value>
VGGT_HD void render_pixel(const RenderParams<Value>& p, const Scene& scene, const Camera& camera,
                          const Mask& seen, const Mask& all, int frame, int x, int y) {
  const float pixel = 1 / camera.focal;
  const uint32_t seed = hash_cell(x, y, 11, static_cast<uint32_t>(camera.seed));
  uint32_t bits = seed;
  Vec3 sum{0, 0, 0};
  for (int k = 0; k < p.samples; ++k) {
    // The first sample is the centre of the pixel: it gives the depth. The others lie anywhere in it.
    const float u = k == 0 ? 0 : (bits & 0xffff) / 65536.0f - 0.5f,
                v = k == 0 ? 0 : (bits >> 16) / 65536.0f - 0.5f;
    Hit first;
    const Ray ray{camera.centre, pixel_direction(camera, x + u, y + v, p.height, p.width)};
    sum = sum + clamp(radiance(scene, seen, all, ray, pixel, &first), 0, 4);
    if (k == 0) {
      const int64_t at = (static_cast<int64_t>(frame) * p.height + y) * p.width + x;
      const bool valid = first.what != kSky && first.t < kFarthest;
      p.valid[at] = valid;
      p.depth[at] = valid ? first.t : 0;
    }
    bits = hash(bits + 0x9e3779b9u);
  }
  const float value[3] = {sum.x / p.samples, sum.y / p.samples, sum.z / p.samples};
  const float gain[3] = {camera.gain.x, camera.gain.y, camera.gain.z};
  const int64_t area = static_cast<int64_t>(p.height) * p.width;
  for (int k = 0; k < 3; ++k) {
    p.images[(static_cast<int64_t>(frame) * 3 + k) * area + y * p.width + x] =
        static_cast<Value>(developed(value[k], gain[k], camera, hash(seed + 101u * (k + 1))));
  }
}

}  // namespace vggt::scenes
