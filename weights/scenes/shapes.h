#pragma once
// Rays against primitives. Distances along a ray are in units of its direction, which need not have length 1.
#include "weights/scenes/scene.h"

namespace vggt::scenes {

constexpr float kMiss = 1e30f;

VGGT_HD Vec3 to_local(const Primitive& p, Vec3 v) {
  const float* r = p.rotation;
  return {r[0] * v.x + r[1] * v.y + r[2] * v.z, r[3] * v.x + r[4] * v.y + r[5] * v.z,
          r[6] * v.x + r[7] * v.y + r[8] * v.z};
}

VGGT_HD Vec3 to_world(const Primitive& p, Vec3 v) {
  const float* r = p.rotation;
  return {r[0] * v.x + r[3] * v.y + r[6] * v.z, r[1] * v.x + r[4] * v.y + r[7] * v.z,
          r[2] * v.x + r[5] * v.y + r[8] * v.z};
}

// A ray in the axes of a primitive, from the point nearest to its centre; hits count in [low, high].
struct LocalRay {
  Vec3 origin, direction;
  float low, high;
};

VGGT_HD float first_in(const LocalRay& ray, float near, float far) {
  if (near >= ray.low) return near <= ray.high ? near : kMiss;
  return far >= ray.low && far <= ray.high ? far : kMiss;
}

VGGT_HD float nonzero(float x) {
  return fabsf(x) < 1e-9f ? 1e-9f : x;
}

struct Roots {
  float near, far;
};

// Where the line is within the box of these half extents; near > far: nowhere.
VGGT_HD Roots box_span(const LocalRay& r, Vec3 half) {
  const Vec3 inverse{1 / nonzero(r.direction.x), 1 / nonzero(r.direction.y), 1 / nonzero(r.direction.z)};
  const Vec3 a = (half * -1 - r.origin) * inverse, b = (half - r.origin) * inverse;
  return {fmaxf(fmaxf(fminf(a.x, b.x), fminf(a.y, b.y)), fminf(a.z, b.z)),
          fminf(fminf(fmaxf(a.x, b.x), fmaxf(a.y, b.y)), fmaxf(a.z, b.z))};
}

VGGT_HD float hit_box(const LocalRay& r, Vec3 half) {
  const Roots span = box_span(r, half);
  return span.near <= span.far && span.near >= r.low && span.near <= r.high ? span.near : kMiss;
}

VGGT_HD Roots roots(float a, float b, float c) {
  const float discriminant = b * b - a * c;
  if (discriminant < 0) return {kMiss, kMiss};
  const float root = sqrtf(discriminant);
  return {(-b - root) / a, (-b + root) / a};
}

VGGT_HD Roots ellipsoid_roots(const LocalRay& r, Vec3 size) {
  const Vec3 inverse{1 / size.x, 1 / size.y, 1 / size.z};
  const Vec3 o = r.origin * inverse, d = r.direction * inverse;
  return roots(dot(d, d), dot(o, d), dot(o, o) - 1);
}

VGGT_HD float hit_ellipsoid(const LocalRay& r, Vec3 size) {
  const float t = ellipsoid_roots(r, size).near;
  return t >= r.low && t <= r.high ? t : kMiss;
}

// The cone x² + y² = (middle + slope z)² between its two discs.
VGGT_HD float hit_frustum(const LocalRay& r, Vec3 size) {
  const float slope = (size.y - size.x) / (2 * size.z), middle = 0.5f * (size.x + size.y);
  const float ro = middle + slope * r.origin.z, rd = slope * r.direction.z;
  const float a = square(r.direction.x) + square(r.direction.y) - rd * rd;
  const float b = r.origin.x * r.direction.x + r.origin.y * r.direction.y - ro * rd;
  const float c = square(r.origin.x) + square(r.origin.y) - ro * ro;
  const Roots side = roots(fabsf(a) < 1e-12f ? 1e-12f : a, b, c);
  float best = kMiss;
  const float at[2] = {side.near, side.far};
  for (const float t : at) {
    if (t >= r.low && t < best && t <= r.high && fabsf(r.origin.z + t * r.direction.z) <= size.z) best = t;
  }
  const float up = r.direction.z > 0 ? -1.0f : 1.0f;  // the disc that faces the ray
  const float cap = (up * size.z - r.origin.z) / nonzero(r.direction.z);
  const Vec3 p = r.origin + r.direction * cap;
  const float radius = up > 0 ? size.y : size.x;
  if (cap >= r.low && cap < best && cap <= r.high && p.x * p.x + p.y * p.y <= radius * radius) best = cap;
  return best;
}

VGGT_HD float hit_capsule(const LocalRay& r, Vec3 size) {
  const float a = square(r.direction.x) + square(r.direction.y);
  const float b = r.origin.x * r.direction.x + r.origin.y * r.direction.y;
  const float c = square(r.origin.x) + square(r.origin.y) - size.x * size.x;
  float best = kMiss;
  if (a > 1e-12f) {
    const float t = roots(a, b, c).near;
    if (t >= r.low && t <= r.high && fabsf(r.origin.z + t * r.direction.z) <= size.y) best = t;
  }
  for (int k = -1; k <= 1; k += 2) {
    const Vec3 o = r.origin - Vec3{0, 0, k * size.y};
    const float t =
        roots(dot(r.direction, r.direction), dot(o, r.direction), dot(o, o) - size.x * size.x).near;
    if (t >= r.low && t <= r.high && t < best && (r.origin.z + t * r.direction.z) * k >= size.y) best = t;
  }
  return best;
}

VGGT_HD float hit_plane(const LocalRay& r) {
  return first_in(r, -r.origin.z / nonzero(r.direction.z), kMiss);
}

VGGT_HD float hit_leaf(const LocalRay& r, Vec3 size) {
  const float t = hit_plane(r);
  const Vec3 p = r.origin + r.direction * t;
  return square(p.x / size.x) + square(p.y / size.y) <= 1 ? t : kMiss;
}

VGGT_HD float hit_lattice(const LocalRay& r, Vec3 size, float detail, float seed) {
  const float t = hit_plane(r);
  const Vec3 p = r.origin + r.direction * t;
  if (fabsf(p.x) > size.x || fabsf(p.y) > size.y) return kMiss;
  const int kind = static_cast<int>(seed) % 3;  // bars, blinds, a grid
  const bool frame = fmaxf(fabsf(p.x) - size.x, fabsf(p.y) - size.y) > -0.5f * size.z / detail;
  const bool upright = kind != 1 && fraction(p.x * detail) < size.z;
  const bool level = kind != 0 && fraction(p.y * detail) < size.z;
  return frame || upright || level ? t : kMiss;
}

// Nested shells with holes: pieces of the shells are the leaves.
VGGT_HD float hit_foliage(const LocalRay& r, Vec3 size, float detail, float seed) {
  float best = kMiss;
  for (int shell = 0; shell < 4; ++shell) {
    const Roots both = ellipsoid_roots(r, size * (1 - 0.2f * shell));
    for (int side = 0; side < 2; ++side) {
      const float t = side ? both.far : both.near;
      if (!(t >= r.low && t <= r.high && t < best)) continue;
      const Vec3 p = (r.origin + r.direction * t) * detail, corner{floorf(p.x), floorf(p.y), floorf(p.z)};
      const uint32_t bits = hash_cell(static_cast<int>(corner.x), static_cast<int>(corner.y),
                                      static_cast<int>(corner.z), static_cast<uint32_t>(seed) + 7u * shell);
      const Vec3 middle{0.3f + 0.4f * unit(bits), 0.3f + 0.4f * unit(hash(bits + 1)),
                        0.3f + 0.4f * unit(hash(bits + 2))};
      if (dot(p - corner - middle, p - corner - middle) < 0.16f) best = t;
    }
  }
  return best;
}

// Distance to the surface, or a lower bound of it; negative inside.
VGGT_HD float distance_to(const Primitive& s, Vec3 p) {
  switch (static_cast<Shape>(static_cast<int>(s.shape))) {
    case Shape::kTorus: {
      p.x -= clamp(p.x, -s.size.z, s.size.z);
      const float ring = sqrtf(p.x * p.x + p.y * p.y) - s.size.x;
      return sqrtf(ring * ring + p.z * p.z) - s.size.y;
    }
    case Shape::kRounded: {
      const float radius = s.detail * fminf(s.size.x, fminf(s.size.y, s.size.z));
      const Vec3 q{fabsf(p.x) - s.size.x + radius, fabsf(p.y) - s.size.y + radius,
                   fabsf(p.z) - s.size.z + radius};
      const Vec3 out{fmaxf(q.x, 0), fmaxf(q.y, 0), fmaxf(q.z, 0)};
      return length(out) + fminf(fmaxf(q.x, fmaxf(q.y, q.z)), 0) - radius;
    }
    default: {  // kBlob: two balls and what flows between them
      const float low = length(p + Vec3{0, 0, 0.5f * s.size.z}) - s.size.x;
      const float high = length(p - Vec3{0, 0, 0.5f * s.size.z}) - s.size.y;
      const float width = 0.5f * fminf(s.size.x, s.size.y);
      const float overlap = fmaxf(width - fabsf(low - high), 0) / width;
      return fminf(low, high) - overlap * overlap * width * 0.25f;
    }
  }
}

// Half extents of the shapes that distance_to() knows.
VGGT_HD Vec3 extents(const Primitive& s) {
  const Vec3 size = s.size;
  const float wide = fmaxf(size.x, size.y);
  switch (static_cast<Shape>(static_cast<int>(s.shape))) {
    case Shape::kTorus:
      return {size.x + size.y + size.z, size.x + size.y, size.y};
    case Shape::kRounded:
      return size;
    default:
      return {1.25f * wide, 1.25f * wide, 0.5f * size.z + wide};
  }
}

VGGT_HD float march(const LocalRay& r, const Primitive& s) {
  const Roots span = box_span(r, extents(s) * 1.001f);
  const float inverse = 1 / length(r.direction), close = 2e-5f * s.bound, end = fminf(r.high, span.far);
  float t = fmaxf(r.low, span.near);
  for (int step = 0; step < 64 && t <= end; ++step) {
    const float distance = distance_to(s, r.origin + r.direction * t);
    if (distance < close) return t > r.low ? t : kMiss;  // a ray does not begin inside
    t += distance * inverse;
  }
  return kMiss;
}

// The first t in [low, high] at which origin + t direction meets the primitive, else kMiss. `inverse_square`
// is 1/|direction|². Solved around the point nearest to the centre: fp32 loses small things far away
// otherwise.
VGGT_HD float hit(const Primitive& s, Vec3 origin, Vec3 direction, float inverse_square, float low,
                  float high) {
  const Vec3 from_centre = origin - s.centre;
  const float middle = -dot(from_centre, direction) * inverse_square;
  const Vec3 nearest = from_centre + direction * middle;
  const float gap = s.bound * s.bound - dot(nearest, nearest);
  if (gap < 0) return kMiss;
  const float chord = sqrtf(gap * inverse_square);
  LocalRay r{{}, {}, fmaxf(low - middle, -chord), fminf(high - middle, chord)};
  if (r.low > r.high) return kMiss;
  r.origin = to_local(s, nearest);
  r.direction = to_local(s, direction);
  float t = kMiss;
  switch (static_cast<Shape>(static_cast<int>(s.shape))) {
    case Shape::kBox:
      t = hit_box(r, s.size);
      break;
    case Shape::kEllipsoid:
      t = hit_ellipsoid(r, s.size);
      break;
    case Shape::kFrustum:
      t = hit_frustum(r, s.size);
      break;
    case Shape::kCapsule:
      t = hit_capsule(r, s.size);
      break;
    case Shape::kLeaf:
      t = hit_leaf(r, s.size);
      break;
    case Shape::kLattice:
      t = hit_lattice(r, s.size, s.detail, s.seed);
      break;
    case Shape::kFoliage:
      t = hit_foliage(r, s.size, s.detail, s.seed);
      break;
    case Shape::kTorus:
    case Shape::kRounded:
    case Shape::kBlob:
      t = march(r, s);
      break;
  }
  return t == kMiss ? kMiss : t + middle;
}

VGGT_HD Vec3 box_normal(Vec3 p, Vec3 half) {
  const Vec3 q{fabsf(p.x) - half.x, fabsf(p.y) - half.y, fabsf(p.z) - half.z};
  if (q.x >= q.y && q.x >= q.z) return {copysignf(1.0f, p.x), 0, 0};
  return q.y >= q.z ? Vec3{0, copysignf(1.0f, p.y), 0} : Vec3{0, 0, copysignf(1, p.z)};
}

VGGT_HD Vec3 frustum_normal(Vec3 p, Vec3 size) {
  const float slope = (size.y - size.x) / (2 * size.z), radius = sqrtf(p.x * p.x + p.y * p.y);
  const float to_side = fabsf(radius - 0.5f * (size.x + size.y) - slope * p.z);
  if (fabsf(fabsf(p.z) - size.z) < to_side) return {0, 0, copysignf(1.0f, p.z)};
  return {p.x, p.y, -slope * radius};
}

// Outward, in the primitive's axes; not of length 1. `p` is on the surface.
VGGT_HD Vec3 local_normal(const Primitive& s, Vec3 p) {
  const Vec3 size = s.size;
  switch (static_cast<Shape>(static_cast<int>(s.shape))) {
    case Shape::kBox:
      return box_normal(p, size);
    case Shape::kEllipsoid:
    case Shape::kFoliage:
      return {p.x / square(size.x), p.y / square(size.y), p.z / square(size.z)};
    case Shape::kFrustum:
      return frustum_normal(p, size);
    case Shape::kCapsule:
      return p - Vec3{0, 0, clamp(p.z, -size.y, size.y)};
    case Shape::kLeaf:
    case Shape::kLattice:
      return {0, 0, 1};
    case Shape::kTorus:
    case Shape::kRounded:
    case Shape::kBlob:
      break;
  }
  // Differences along the corners of a tetrahedron.
  const float e = 1e-3f * s.bound;
  const float a = distance_to(s, p + Vec3{e, -e, -e}), b = distance_to(s, p + Vec3{-e, -e, e});
  const float c = distance_to(s, p + Vec3{-e, e, -e}), d = distance_to(s, p + Vec3{e, e, e});
  return Vec3{a - b - c + d, c + d - a - b, b + d - a - c} * (1 / s.bound);
}

}  // namespace vggt::scenes
