#pragma once
#include <cstdint>
#include <vector>

namespace vggt {

/// A picture of a room with mottled walls, rgb [H,W,3], from place t in [0,1] of a walk past one of its
/// corners: what benchmarks reconstruct. The same on every machine but for rounding.
std::vector<uint8_t> room_picture(int width, int height, double t);

}  // namespace vggt
