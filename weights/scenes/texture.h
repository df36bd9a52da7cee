#pragma once
// Colours of surfaces, as functions of the position in the object's own axes.
#include "weights/scenes/scene.h"

namespace vggt::scenes {

// 1 where the pattern is well resolved, 0 where a pixel covers more than about 0.7 periods.
VGGT_HD float resolved(float frequency, float footprint) {
  return clamp(1.6f - 2.2f * frequency * footprint, 0, 1);
}

VGGT_HD float value_noise(Vec3 p, uint32_t seed) {
  const float fx = floorf(p.x), fy = floorf(p.y), fz = floorf(p.z);
  const int x = static_cast<int>(fx), y = static_cast<int>(fy), z = static_cast<int>(fz);
  Vec3 t{p.x - fx, p.y - fy, p.z - fz};
  t = {t.x * t.x * (3 - 2 * t.x), t.y * t.y * (3 - 2 * t.y), t.z * t.z * (3 - 2 * t.z)};
  float plane[2];
  for (int k = 0; k < 2; ++k) {
    const float a = unit(hash_cell(x, y, z + k, seed)), b = unit(hash_cell(x + 1, y, z + k, seed));
    const float c = unit(hash_cell(x, y + 1, z + k, seed)), d = unit(hash_cell(x + 1, y + 1, z + k, seed));
    const float ab = a + (b - a) * t.x, cd = c + (d - c) * t.x;
    plane[k] = ab + (cd - ab) * t.y;
  }
  return plane[0] + (plane[1] - plane[0]) * t.z;
}

// Octaves of noise around 0, each left out where it is finer than a pixel.
VGGT_HD float fractal_noise(Vec3 p, float frequency, uint32_t seed, int octaves, float footprint) {
  float sum = 0, amplitude = 1.2f;
  for (int k = 0; k < octaves; ++k) {
    const float weight = resolved(frequency, footprint);
    if (weight <= 0) break;
    sum += amplitude * weight * (value_noise(p * frequency, seed + 31u * k) - 0.5f);
    frequency *= 2.13f;
    amplitude *= 0.58f;
  }
  return sum;
}

// A square wave of period 1 in [-1,1] with edges as wide as `blur`.
VGGT_HD float square_wave(float x, float blur) {
  const float triangle = fabsf(fraction(x) - 0.5f) * 4 - 1;
  return clamp(triangle / fmaxf(4 * blur, 0.04f), -1, 1);
}

VGGT_HD Vec3 varied(const Material& m, uint32_t bits) {
  const Vec3 shift{unit(hash(bits + 1)) - 0.5f, unit(hash(bits + 2)) - 0.5f, unit(hash(bits + 3)) - 0.5f};
  return mix(m.first, m.second, unit(bits)) + shift * 0.25f;
}

struct Plane2 {
  float u, v;
};

// The two axes that the surface lies along most.
VGGT_HD Plane2 along_surface(Vec3 p, Vec3 n) {
  const float x = fabsf(n.x), y = fabsf(n.y), z = fabsf(n.z);
  if (z >= x && z >= y) return {p.x, p.y};
  return x >= y ? Plane2{p.y, p.z} : Plane2{p.x, p.z};
}

VGGT_HD Vec3 cobbles(const Material& m, Vec3 p) {
  const Vec3 g = p * m.frequency;
  const int x = static_cast<int>(floorf(g.x)), y = static_cast<int>(floorf(g.y)),
            z = static_cast<int>(floorf(g.z));
  float nearest = 1e9f, next = 1e9f;
  uint32_t cell = 0;
  for (int k = 0; k < 27; ++k) {
    const int cx = x + k % 3 - 1, cy = y + k / 3 % 3 - 1, cz = z + k / 9 - 1;
    const uint32_t bits = hash_cell(cx, cy, cz, static_cast<uint32_t>(m.seed));
    const Vec3 seed{cx + (bits & 1023) / 1024.0f, cy + (bits >> 10 & 1023) / 1024.0f,
                    cz + (bits >> 20 & 1023) / 1024.0f};
    const float distance = dot(seed - g, seed - g);
    if (distance < nearest) {
      next = nearest;
      nearest = distance;
      cell = bits;
    } else if (distance < next) {
      next = distance;
    }
  }
  const float joint = m.variant < 0.5f ? 1 : clamp((sqrtf(next) - sqrtf(nearest)) * 8, 0, 1);
  return varied(m, hash(cell)) * (0.55f + 0.45f * joint);
}

VGGT_HD Vec3 bricks(const Material& m, Plane2 p, float footprint) {
  const float aspect = 1 + 2 * m.variant;  // 1: tiles, which are not staggered
  const float v = p.v * m.frequency * aspect, row = floorf(v);
  const float stagger = m.variant < 0.3f ? 0 : 0.5f * (row - 2 * floorf(row * 0.5f));
  const float u = p.u * m.frequency + stagger, column = floorf(u);
  const float to_edge = fminf((0.5f - fabsf(u - column - 0.5f)) * aspect, 0.5f - fabsf(v - row - 0.5f));
  const float inside = clamp((to_edge - 0.04f) / fmaxf(0.03f, m.frequency * aspect * footprint), 0, 1);
  const uint32_t bits =
      hash_cell(static_cast<int>(column), static_cast<int>(row), 5, static_cast<uint32_t>(m.seed));
  return mix(m.second, mix(m.first, varied(m, bits), 0.5f), inside);
}

VGGT_HD Vec3 mosaic(const Material& m, Vec3 p, float footprint) {
  Vec3 colour = mix(m.first, m.second, 0.5f);
  float frequency = m.frequency;
  for (uint32_t level = 0; level < 2; ++level, frequency *= 2.7f) {
    const uint32_t bits =
        hash_cell(static_cast<int>(floorf(p.x * frequency)), static_cast<int>(floorf(p.y * frequency)),
                  static_cast<int>(floorf(p.z * frequency)), static_cast<uint32_t>(m.seed) + level);
    if (level == 0 || unit(hash(bits + 9)) < 0.45f) {
      colour = mix(colour, varied(m, bits), resolved(frequency, footprint));
    }
  }
  return colour;
}

VGGT_HD Vec3 spots(const Material& m, Vec3 p, float footprint) {
  const Vec3 g = p * m.frequency, corner{floorf(g.x), floorf(g.y), floorf(g.z)};
  const uint32_t bits = hash_cell(static_cast<int>(corner.x), static_cast<int>(corner.y),
                                  static_cast<int>(corner.z), static_cast<uint32_t>(m.seed));
  const Vec3 middle{0.35f + 0.3f * unit(bits), 0.35f + 0.3f * unit(hash(bits + 4)),
                    0.35f + 0.3f * unit(hash(bits + 5))};
  const float radius = 0.22f + 0.2f * unit(hash(bits + 6));
  const float inside =
      clamp((radius - length(g - corner - middle)) / fmaxf(0.03f, m.frequency * footprint) + 0.5f, 0, 1);
  return mix(m.first, varied(m, bits), inside * resolved(m.frequency, footprint));
}

// Boards with rings of growth along the first axis.
VGGT_HD Vec3 wood(const Material& m, Plane2 p, Vec3 q, float footprint) {
  const float board = floorf(p.v * m.frequency);
  const uint32_t bits = hash_cell(static_cast<int>(board), 3, 1, static_cast<uint32_t>(m.seed));
  const Vec3 stretched{q.x * 0.35f, q.y, q.z};
  const float bend = fractal_noise(stretched, m.frequency, bits, 2, footprint);
  const float rings = (p.v * 5 + bend * 1.5f) * m.frequency;
  const float ring = square_wave(rings, 0.25f) * resolved(5 * m.frequency, footprint);
  const float gap =
      m.variant < 0.5f ? 1 : clamp((0.5f - fabsf(p.v * m.frequency - board - 0.5f)) * 40, 0.4f, 1);
  return mix(m.first, m.second, 0.3f + 0.25f * ring + 0.3f * unit(bits)) * gap;
}

// Lines of words and some pictures, as on posters, labels and books.
VGGT_HD Vec3 print(const Material& m, Plane2 p, float footprint) {
  const uint32_t seed = static_cast<uint32_t>(m.seed);
  const float u = p.u * m.frequency, v = p.v * m.frequency;
  const uint32_t page = hash_cell(static_cast<int>(floorf(u)), static_cast<int>(floorf(v)), 2, seed);
  if (page % 3 == 0) return mix(m.first, varied(m, page), resolved(m.frequency, footprint));
  const float fine = 6 * m.frequency, row = floorf(v * 6), step = 2 + page % 5;
  const uint32_t word = hash_cell(static_cast<int>(floorf(u * step)), static_cast<int>(row), 8, seed);
  const bool ink = fraction(v * 6) > 0.4f && unit(word) > 0.3f;
  return mix(m.first, m.second, (ink ? 1.0f : 0.0f) * resolved(fine, footprint));
}

VGGT_HD Vec3 pattern(const Material& m, Vec3 p, Vec3 normal, float footprint) {
  const uint32_t seed = static_cast<uint32_t>(m.seed);
  const float f = m.frequency, blur = f * footprint, weight = resolved(f, footprint);
  const Vec3 middle = mix(m.first, m.second, 0.5f);
  switch (static_cast<Texture>(static_cast<int>(m.texture))) {
    case Texture::kCloudy:
      return mix(m.first, m.second, clamp(0.5f + 1.1f * fractal_noise(p, f, seed, 4, footprint), 0, 1));
    case Texture::kStripes: {
      const float bend = m.variant * fractal_noise(p, f * 0.7f, seed, 2, footprint);
      const float wave = square_wave(dot(p, {0.8f, 0.55f, 0.23f}) * f + bend, blur);
      return mix(m.first, m.second, 0.5f + 0.5f * wave * weight);
    }
    case Texture::kChecks: {
      const float wave = square_wave(p.x * f, blur) * square_wave(p.y * f, blur) * square_wave(p.z * f, blur);
      return mix(m.first, m.second, 0.5f + 0.5f * wave * weight);
    }
    case Texture::kCobbles:
      return mix(middle, cobbles(m, p), weight);
    case Texture::kBricks:
      return mix(middle, bricks(m, along_surface(p, normal), footprint), resolved(2 * f, footprint));
    case Texture::kMosaic:
      return mosaic(m, p, footprint);
    case Texture::kSpots:
      return spots(m, p, footprint);
    case Texture::kWood:
      return wood(m, along_surface(p, normal), p, footprint);
    case Texture::kPrint:
      return print(m, along_surface(p, normal), footprint);
    case Texture::kPlain:
      break;
  }
  return m.first;
}

// Albedo at p (object axes, scene units); a pixel covers `footprint` scene units there.
VGGT_HD Vec3 surface_colour(const Material& m, Vec3 p, Vec3 normal, float footprint) {
  const Vec3 colour = pattern(m, p, normal, footprint);
  const float grain = fractal_noise(p, m.grain_frequency, static_cast<uint32_t>(m.seed) + 77u, 3, footprint);
  return clamp(colour * (1 + m.grain * grain), 0.02f, 1);
}

}  // namespace vggt::scenes
