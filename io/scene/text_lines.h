#pragma once
#include <Eigen/Geometry>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace vggt {

/// Calls take(line) for every line of a file that lists cameras. Throws std::invalid_argument for what take()
/// throws, with path and line in front, and for files above 1 GiB; std::system_error if the file cannot be
/// read.
void each_line(const std::filesystem::path& path, const std::function<void(std::string_view line)>& take);

std::vector<std::string_view> words_of(std::string_view line);

/// Throws std::invalid_argument for a word that is no number, or none that is finite.
double finite_number(std::string_view word);

/// q divided by its length. Throws std::invalid_argument where that is 0 or overflows.
Eigen::Quaterniond unit_quaternion(const Eigen::Quaterniond& q);

}  // namespace vggt
