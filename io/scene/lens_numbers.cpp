#include "io/scene/lens_numbers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace vggt {
namespace {

constexpr std::string_view kOpenCv = "OPENCV";
constexpr std::size_t kOpenCvNumbers = 8;
constexpr std::array<std::size_t, 4> kNumbers = {3, 4, 4, 5};  // of the models of CameraModel

std::string upper_case(std::string_view text) {
  std::string upper;
  for (const char c : text) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

void expect_numbers(std::string_view model, std::size_t expected, std::size_t got) {
  if (got == expected) return;
  throw std::invalid_argument(std::string(model) + " has " + std::to_string(expected) + " parameters, got " +
                              std::to_string(got));
}

CameraModel model_of(const LensNumbers& lens) {
  if (lens.k2 != 0) return CameraModel::radial;
  if (lens.k1 != 0) return CameraModel::simple_radial;
  return is_one_focal(lens.fx, lens.fy) ? CameraModel::simple_pinhole : CameraModel::pinhole;
}

/// Whether the model has parameters for all that another one has.
bool has_all_of(CameraModel model, CameraModel other) {
  return model == other || other == CameraModel::simple_pinhole ||
         (model == CameraModel::radial && other == CameraModel::simple_radial);
}

}  // namespace

bool is_one_focal(double fx, double fy) {
  constexpr double kRounding = 1e-9;
  return std::abs(fx - fy) <= kRounding * fx;
}

void set_lens(Camera& camera, const LensNumbers& lens, LensReading reading) {
  set_simple_intrinsics(camera, lens.width, lens.height, lens.fx);
  if (!(lens.fy > 0 && std::isfinite(lens.fy)))
    throw std::invalid_argument("a camera's width and focal length must be positive");
  const bool one_focal = is_one_focal(lens.fx, lens.fy);
  camera.k(1, 1) = one_focal ? lens.fx : lens.fy;
  if (lens.cx) camera.k(0, 2) = *lens.cx - 0.5;
  if (lens.cy) camera.k(1, 2) = *lens.cy - 0.5;
  std::string beyond = lens.beyond;
  const bool distorted = lens.k1 != 0 || lens.k2 != 0;
  if (beyond.empty() && distorted && !one_focal) beyond = "two focal lengths and distortion";
  if (!beyond.empty()) {
    camera.has_whole_lens = false;
    if (reading == LensReading::as_far_as_known) return;
    throw std::invalid_argument("a lens with " + beyond +
                                " is none of SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL " +
                                "and RADIAL: give undistorted images");
  }
  camera.distortion << lens.k1, lens.k2;
  const CameraModel needed = model_of(lens);
  camera.model = lens.model && has_all_of(*lens.model, needed) ? *lens.model : needed;
}

LensNumbers colmap_lens(std::string_view name, double width, double height, std::span<const double> numbers) {
  const std::string upper = upper_case(name);
  LensNumbers lens{width, height, numbers[0], numbers[0]};
  if (upper == kOpenCv) {
    expect_numbers(kOpenCv, kOpenCvNumbers, numbers.size());
    lens = {width, height, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
    if (numbers[6] != 0 || numbers[7] != 0) lens.beyond = "p1, p2";
    return lens;
  }
  const std::optional<CameraModel> model = camera_model_named(upper);
  if (!model) {
    lens.beyond = "the model '" + upper.substr(0, 40) + "'";
    return lens;
  }
  expect_numbers(colmap_name(*model), kNumbers.at(static_cast<std::size_t>(*model)), numbers.size());
  const std::size_t focals = *model == CameraModel::pinhole ? 2 : 1;
  lens.fy = numbers[focals - 1];
  lens.cx = numbers[focals];
  lens.cy = numbers[focals + 1];
  if (*model == CameraModel::simple_radial || *model == CameraModel::radial) lens.k1 = numbers[3];
  if (*model == CameraModel::radial) lens.k2 = numbers[4];
  lens.model = model;
  return lens;
}

}  // namespace vggt
