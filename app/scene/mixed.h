#pragma once
#include <cstdint>

namespace vggt {

/// A well mixed 64-bit number (splitmix64, Steele et al. 2014).
inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace vggt
