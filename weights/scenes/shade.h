#pragma once
// From a ray to a colour and a depth.
#include "weights/scenes/shapes.h"
#include "weights/scenes/texture.h"

namespace vggt::scenes {

VGGT_HD int lowest_bit(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return __builtin_ctz(word);
#endif
}

struct Ray {
  Vec3 origin, direction;
};

enum : int { kSky = -1, kFloor = kMaxPrimitives, kCeiling, kWalls };

struct Hit {
  float t;
  int what;  // a primitive, kSky, or kFloor + the row of its material
};

// Where the ray leaves the surroundings; t may be kMiss.
VGGT_HD Hit leave(const Surroundings& s, const Ray& ray) {
  const Vec3 o = ray.origin, d = ray.direction;
  const float x = d.x == 0 ? kMiss : (copysignf(s.half.x, d.x) - o.x) / d.x;
  const float y = d.y == 0 ? kMiss : (copysignf(s.half.y, d.y) - o.y) / d.y;
  float z = kMiss;
  if (d.z < 0) z = -o.z / d.z;
  if (d.z > 0 && s.open < 0.5f) z = (s.half.z - o.z) / d.z;
  if (z <= x && z <= y) return {z, d.z < 0 ? kFloor : kCeiling};
  const float t = fminf(x, y);
  if (s.open > 0.5f && o.z + d.z * t > s.wall_height) return {kMiss, kSky};
  return {t, x <= y ? (d.x > 0 ? kWalls : kWalls + 1) : (d.y > 0 ? kWalls + 2 : kWalls + 3)};
}

VGGT_HD Hit trace(const Scene& scene, const Mask& mask, const Ray& ray, float low) {
  Hit best = leave(*scene.surroundings, ray);
  const float inverse_square = 1 / dot(ray.direction, ray.direction);
  for (int word = 0; word < kMaskWords; ++word) {
    for (uint32_t left = mask.words[word]; left; left &= left - 1) {
      const int i = 32 * word + lowest_bit(left);
      const float t = hit(scene.primitives[i], ray.origin, ray.direction, inverse_square, low, best.t);
      if (t < best.t) best = {t, i};
    }
  }
  return best;
}

VGGT_HD bool shadowed(const Scene& scene, const Mask& mask, const Ray& ray, float farthest) {
  const Surroundings& s = *scene.surroundings;
  if (s.light_range == 0 && leave(s, ray).what != kSky) return true;
  for (int word = 0; word < kMaskWords; ++word) {
    for (uint32_t left = mask.words[word]; left; left &= left - 1) {
      const int i = 32 * word + lowest_bit(left);
      if (hit(scene.primitives[i], ray.origin, ray.direction, 1, 1e-4f, farthest) != kMiss) return true;
    }
  }
  return false;
}

VGGT_HD Vec3 sky_colour(const Surroundings& s, Vec3 direction) {
  const float up = fmaxf(direction.z, 0);
  const Vec3 clear = mix(s.horizon, s.zenith, clamp(up * 1.6f, 0, 1));
  const Vec3 on_layer{direction.x / (up + 0.2f), direction.y / (up + 0.2f), 0};
  const float cloud = fractal_noise(on_layer, 1.4f, static_cast<uint32_t>(s.seed), 4, 0.02f);
  return mix(clear, {0.94f, 0.95f, 0.97f}, s.clouds * clamp(0.3f + 1.4f * cloud, 0, 1));
}

// Corners and the foot of walls get less of the ambient light.
VGGT_HD float openness(const Surroundings& s, Vec3 p, Vec3 normal) {
  const float reach = 4;
  float light = 1 - 0.4f * expf(-reach * p.z) * (1 - fmaxf(normal.z, 0));
  if (s.open > 0.5f) return light;
  const Vec3 gap{s.half.x - fabsf(p.x), s.half.y - fabsf(p.y), s.half.z - p.z};
  light *= 1 - 0.3f * expf(-reach * gap.x) * (1 - fabsf(normal.x));
  light *= 1 - 0.3f * expf(-reach * gap.y) * (1 - fabsf(normal.y));
  return light * (1 - 0.3f * expf(-reach * gap.z) * (1 - fabsf(normal.z)));
}

struct Surface {
  Vec3 point, normal;  // in the world; the normal faces the ray
  Vec3 local, local_normal;
  const Material* material;
};

VGGT_HD Surface surface_at(const Scene& scene, const Ray& ray, const Hit& found) {
  Surface s;
  s.point = ray.origin + ray.direction * found.t;
  if (found.what >= kFloor) {
    const int face = found.what - kFloor;
    const float sign = face == 0 || face % 2 == 1 ? 1.0f : -1.0f;
    s.normal = face < 2   ? Vec3{0, 0, face == 0 ? 1.0f : -1.0f}
               : face < 4 ? Vec3{sign, 0, 0}
                          : Vec3{0, sign, 0};
    s.local = s.point;
    s.local_normal = s.normal;
    s.material = scene.materials + face;
    return s;
  }
  const Primitive& p = scene.primitives[found.what];
  s.local = to_local(p, s.point - p.centre);
  s.local_normal = local_normal(p, s.local);
  s.normal = normalised(to_world(p, s.local_normal));
  if (dot(s.normal, ray.direction) > 0) s.normal = s.normal * -1;
  s.local =
      s.local + Vec3{fraction(p.seed * 0.137f), fraction(p.seed * 0.071f), fraction(p.seed * 0.213f)} * 7;
  s.material = scene.materials + static_cast<int>(p.material);
  return s;
}

// Light that the surface sends back along the ray, without what it mirrors.
VGGT_HD Vec3 lit(const Scene& scene, const Mask& all, const Surface& at, Vec3 towards, float footprint) {
  const Surroundings& s = *scene.surroundings;
  const Vec3 albedo = surface_colour(*at.material, at.local, at.local_normal, footprint);
  Vec3 light = s.light;
  float distance = 1e4f, strength = 1;
  if (s.light_range > 0) {
    light = s.light - at.point;
    distance = length(light);
    light = light * (1 / distance);
    strength = 1 / (1 + square(distance / s.light_range));
  }
  float facing = dot(at.normal, light);
  if (facing > 0 && shadowed(scene, all, {at.point + at.normal * 2e-3f, light}, distance)) facing = 0;
  const Vec3 ambient = s.ambient * ((0.8f + 0.2f * at.normal.z) * openness(s, at.point, at.normal));
  const Vec3 direct =
      s.light_colour * (strength * fmaxf(facing, 0)) + s.fill_colour * fmaxf(dot(at.normal, s.fill), 0);
  Vec3 colour = albedo * (ambient + direct);
  if (at.material->gloss > 0 && facing > 0) {
    const float shine = fmaxf(dot(normalised(light + towards), at.normal), 1e-3f);
    colour = colour + s.light_colour * (at.material->gloss * strength * powf(shine, at.material->sharpness));
  }
  return colour;
}

// Radiance along a camera ray and its first hit. `seen` holds all that the ray may meet first, `all`
// everything.
VGGT_HD Vec3 radiance(const Scene& scene, const Mask& seen, const Mask& all, Ray ray, float pixel,
                      Hit* first) {
  Vec3 colour{0, 0, 0};
  float weight = 1;
  *first = trace(scene, seen, ray, 1e-3f);
  Hit found = *first;
  for (int bounce = 0;; ++bounce) {
    const Vec3 along = normalised(ray.direction);
    if (found.what == kSky || found.t > 1e4f) return colour + sky_colour(*scene.surroundings, along) * weight;
    const Surface at = surface_at(scene, ray, found);
    const float facing = -dot(at.normal, along);
    const float footprint = found.t * pixel / sqrtf(fmaxf(facing, 0.1f));
    float mirror = bounce == 0 ? at.material->mirror : 0;
    mirror *= 0.35f + 0.65f * square(square(1 - clamp(facing, 0, 1)));
    colour = colour + lit(scene, all, at, along * -1, footprint) * (weight * (1 - mirror));
    if (mirror < 0.02f) return colour;
    weight = mirror;
    ray = {at.point + at.normal * 2e-3f, along + at.normal * (2 * facing)};
    pixel *= 2;  // the way there is not counted otherwise
    found = trace(scene, all, ray, 1e-4f);
  }
}

}  // namespace vggt::scenes
