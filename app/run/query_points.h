#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vggt {

/// x, y in network pixels of frame 0.
using QueryPoints = std::vector<std::array<float, 2>>;

/// Reads "x,y" lines; a first line without numbers is a header, empty lines are skipped.
/// Throws std::invalid_argument naming file and line; std::system_error if the file cannot be read.
QueryPoints read_query_points(const std::string& path);

/// Throws std::invalid_argument for the first point outside the pixel centres of a width × height frame.
void check_inside(const QueryPoints& points, int width, int height, const std::string& path);
/// And for the first one whose pixel the frame's mask [H,W] does not leave: 0 there.
void check_unmasked(const QueryPoints& points, std::span<const uint8_t> used, int width,
                    const std::string& path);

}  // namespace vggt
