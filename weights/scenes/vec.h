#pragma once
// Small vectors and hashing for code that is compiled for the CPU and for the GPU.
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define VGGT_HD __host__ __device__ __forceinline__
#else
#define VGGT_HD inline
#endif

namespace vggt::scenes {

struct Vec3 {
  float x, y, z;
};

VGGT_HD Vec3 operator+(Vec3 a, Vec3 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
VGGT_HD Vec3 operator-(Vec3 a, Vec3 b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
VGGT_HD Vec3 operator*(Vec3 a, Vec3 b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z};
}
VGGT_HD Vec3 operator*(Vec3 a, float s) {
  return {a.x * s, a.y * s, a.z * s};
}
VGGT_HD float dot(Vec3 a, Vec3 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
VGGT_HD float length(Vec3 a) {
  return sqrtf(dot(a, a));
}
VGGT_HD Vec3 normalised(Vec3 a) {
  return a * (1 / sqrtf(fmaxf(dot(a, a), 1e-20f)));
}
VGGT_HD float clamp(float x, float low, float high) {
  return fminf(fmaxf(x, low), high);
}
VGGT_HD Vec3 clamp(Vec3 a, float low, float high) {
  return {clamp(a.x, low, high), clamp(a.y, low, high), clamp(a.z, low, high)};
}
VGGT_HD Vec3 mix(Vec3 a, Vec3 b, float t) {
  return a + (b - a) * t;
}
VGGT_HD float square(float x) {
  return x * x;
}
VGGT_HD float fraction(float x) {
  return x - floorf(x);
}

// The finaliser of MurmurHash3.
VGGT_HD uint32_t hash(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

VGGT_HD uint32_t hash_cell(int x, int y, int z, uint32_t seed) {
  return hash(static_cast<uint32_t>(x) * 0x9e3779b1u + static_cast<uint32_t>(y) * 0x85ebca77u +
              static_cast<uint32_t>(z) * 0xc2b2ae3du + seed * 0x27d4eb2fu);
}

// [0,1)
VGGT_HD float unit(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

}  // namespace vggt::scenes
