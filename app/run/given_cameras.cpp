#include "app/run/given_cameras.h"

#include <Eigen/Geometry>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "app/scene/align_cameras.h"
#include "app/scene/known_cameras.h"
#include "app/scene/world_move.h"
#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/files/text_file.h"
#include "io/scene/lens_numbers.h"
#include "io/scene/pose_files.h"

namespace vggt {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& what) {
  throw std::invalid_argument(option + ": " + what);
}

/// The numbers of "fx,fy,cx,cy"; nothing if the text is a file's name.
std::optional<std::vector<double>> numbers_of(const std::string& text) {
  const bool is_numbers =
      text.find_first_not_of("0123456789+-.eE, ") == std::string::npos || std::ranges::count(text, ',') == 3;
  std::error_code ignored;  // of a text that is too long for a name
  if (!is_numbers || std::filesystem::exists(text, ignored)) return std::nullopt;
  std::vector<double> numbers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = parse_number<double>(std::string_view(text).substr(begin, end - begin));
    if (!number) break;
    numbers.push_back(*number);
    begin = end == text.size() ? end + 1 : std::min(text.find_first_not_of(' ', end + 1), text.size());
  }
  if (numbers.size() == 4 && begin > text.size()) return numbers;
  refuse("intrinsics", "expected the four numbers fx,fy,cx,cy or a file, got '" + text + "'");
}

/// fx, fy, cx, cy of a file's matrix.
std::vector<double> numbers_of_matrix(const std::string& path, const std::vector<double>& k) {
  const bool good = k[1] == 0 && k[3] == 0 && k[6] == 0 && k[7] == 0 && k[8] == 1;
  if (!good) refuse("intrinsics", path + ": expected a matrix fx 0 cx, 0 fy cy, 0 0 1");
  return {k[0], k[4], k[2], k[5]};
}

/// Those of a file that holds fx, fy, cx, cy or a 3×3 matrix, apart by commas, blanks, lines or JSON's
/// brackets; # begins a comment. Nothing of a file that holds other words or none, or more than 1000 bytes.
std::optional<std::vector<double>> numbers_in(const std::string& path) {
  constexpr uintmax_t kMostBytes = 1000;
  std::error_code ignored;  // reading it says what is wrong
  if (!std::filesystem::is_regular_file(path, ignored) ||
      std::filesystem::file_size(path, ignored) > kMostBytes)
    return std::nullopt;
  std::string text = read_text_file(path, kMostBytes, "intrinsics");
  bool in_comment = false;
  for (char& c : text) {
    in_comment = c != '\n' && (in_comment || c == '#');
    if (in_comment || c == '\n' || c == ',' || c == '[' || c == ']') c = ' ';
  }
  std::vector<double> numbers;
  std::string_view rest = text;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const auto number = parse_number<double>(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty()) return std::nullopt;
  if (numbers.size() == 9) return numbers_of_matrix(path, numbers);
  if (numbers.size() != 4)
    refuse("intrinsics", path + ": expected fx,fy,cx,cy, a 3x3 matrix or the cameras of frames, got " +
                             std::to_string(numbers.size()) + " numbers");
  return numbers;
}

/// Four numbers as a camera without a name. Principal points are given as COLMAP's and OpenCV's users do,
/// from the image's corner; here pixel centres lie at integers.
FrameCamera camera_of(const std::vector<double>& numbers) {
  FrameCamera frame;
  frame.camera.k << numbers[0], 0, numbers[2] - 0.5, 0, numbers[1], numbers[3] - 0.5, 0, 0, 1;
  if (is_one_focal(numbers[0], numbers[1])) frame.camera.model = CameraModel::simple_pinhole;
  const bool good = std::ranges::all_of(numbers, [](double n) { return std::isfinite(n); }) &&
                    numbers[0] > 0 && numbers[1] > 0;
  if (!good) refuse("intrinsics", "expected fx,fy,cx,cy in pixels, both focal lengths above 0");
  return frame;
}

std::vector<FrameCamera> read_cameras_of(const std::string& option, const std::string& path,
                                         LensReading lenses) {
  try {
    return read_pose_file(path, lenses);
  } catch (const std::invalid_argument& error) {
    refuse(option, error.what());
  }
}

bool is_one_for_all(const GivenCameras& given) {
  return given.intrinsics.size() == 1 && given.intrinsics.front().file.empty();
}

/// What is no lens of any camera: focal lengths and principal points beyond all images, and a distortion that
/// shows the middle of an image's sides nowhere near where they are.
void refuse_odd_lens(const GivenCameras& given, const Camera& camera, const Frame& frame) {
  constexpr double kShortest = 0.01, kLongest = 1000, kFarthest = 2, kMostBent = 10;
  const double width = frame.original_width, height = frame.original_height, side = std::max(width, height);
  const double fx = camera.k(0, 0), fy = camera.k(1, 1), cx = camera.k(0, 2), cy = camera.k(1, 2);
  const auto odd = [&](const std::string& what) {
    refuse("intrinsics", given.intrinsics_name + ": " + what + " for '" + frame.file + "' of " +
                             std::to_string(frame.original_width) + "x" +
                             std::to_string(frame.original_height) + " pixels");
  };
  for (const double focal : {fx, fy}) {
    if (!(focal >= kShortest * side && focal <= kLongest * side)) odd("no focal length");
  }
  if (!(std::abs(cx) <= kFarthest * side && std::abs(cy) <= kFarthest * side)) odd("no principal point");
  if (is_one_for_all(given) && !(cx > -1 && cy > -1 && cx < width && cy < height))
    odd("a principal point outside the image");
  if (!camera.is_distorted()) return;
  for (const Eigen::Vector2d& pixel : {Eigen::Vector2d(0, cy), {width - 1, cy}, {cx, 0}, {cx, height - 1}}) {
    const double shown = ((pixel - Eigen::Vector2d(cx, cy)).array() / Eigen::Array2d(fx, fy)).matrix().norm(),
                 seen = camera.ray(pixel).head<2>().norm();
    if (shown > 0 && !(seen < kMostBent * shown && shown < kMostBent * seen)) odd("no distortion");
  }
}

/// Four numbers are of images of one size.
void refuse_several_sizes(const GivenCameras& given, const FrameSet& frames) {
  const Frame& first = frames.frames.front();
  for (const Frame& frame : frames.frames) {
    if (frame.original_width == first.original_width && frame.original_height == first.original_height)
      continue;
    refuse("intrinsics", given.intrinsics_name + ": of which size? '" + first.file + "' has " +
                             std::to_string(first.original_width) + "x" +
                             std::to_string(first.original_height) + " pixels, '" + frame.file + "' " +
                             std::to_string(frame.original_width) + "x" +
                             std::to_string(frame.original_height) + "; a file gives each frame its own");
  }
}

/// The known intrinsics of each frame: k in pixels of the original.
std::vector<std::optional<Camera>> known_intrinsics(const GivenCameras& given, const FrameSet& frames) {
  if (is_one_for_all(given))
    return std::vector<std::optional<Camera>>(frames.frames.size(), given.intrinsics.front().camera);
  std::vector<std::optional<Camera>> known =
      match_cameras(frames, given.intrinsics, "intrinsics: " + given.intrinsics_name, "the cameras");
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i]) complete(*known[i], frames.frames[i].original_width, frames.frames[i].original_height);
  }
  return known;
}

std::vector<std::optional<Camera>> known_poses(const GivenCameras& given, const FrameSet& frames) {
  return match_cameras(frames, given.poses, "poses: " + given.poses_name);
}

/// The model that all these cameras have; nothing where they differ.
std::optional<CameraModel> model_of_all(const std::vector<FrameCamera>& frames) {
  std::optional<CameraModel> all;
  for (const FrameCamera& frame : frames) {
    if (!frame.camera.valid) continue;
    if (all && *all != frame.camera.model) return std::nullopt;
    all = frame.camera.model;
  }
  return all;
}

bool same_intrinsics(const Camera& a, const Camera& b) {
  return a.k == b.k && a.distortion == b.distortion && a.model == b.model &&
         a.original_width == b.original_width && a.original_height == b.original_height;
}

/// Whether the numbers of the cameras say which are one: not where none has one, nor where each frame has its
/// own, as COLMAP gives it unless told otherwise.
bool are_numbered(const std::vector<std::optional<Camera>>& known) {
  std::set<int> numbers;
  for (const auto& camera : known) numbers.insert(camera->camera_id);
  return !numbers.contains(-1) && numbers.size() < known.size();
}

bool is_own_axis(const Eigen::Vector3d& axis) {
  constexpr double kRounding = 1e-9;
  return axis.head<2>().norm() < kRounding;
}

}  // namespace

GivenCameras plan_given(const Options& options) {
  GivenCameras given{options.intrinsics, options.poses, {}, {}};
  if (!options.intrinsics.empty()) {
    auto numbers = numbers_of(options.intrinsics);
    if (!numbers) numbers = numbers_in(options.intrinsics);
    if (numbers) {
      given.intrinsics.push_back(camera_of(*numbers));
    } else {
      given.intrinsics = read_cameras_of("intrinsics", options.intrinsics, LensReading::whole);
      for (const FrameCamera& frame : given.intrinsics) {
        if (frame.camera.valid && !(frame.camera.has_intrinsics() && frame.camera.k(0, 0) > 0))
          refuse("intrinsics", options.intrinsics + ": tells no focal length and size of " +
                                   (frame.file.empty() ? "its frames" : "'" + frame.file + "'"));
      }
    }
  }
  if (!options.poses.empty())
    given.poses = read_cameras_of("poses", options.poses, LensReading::as_far_as_known);
  return given;
}

AdjustOptions plan_adjustment(const Options& options, const GivenCameras& given, bool wanted) {
  const auto refined = [&](const char* what) {
    return std::ranges::find(options.refine, what) != options.refine.end();
  };
  const bool intrinsics = !given.intrinsics_name.empty(), poses = !given.poses_name.empty();
  if (refined("intrinsics") && !intrinsics)
    refuse("refine", "intrinsics are refined where --intrinsics gives them");
  if (refined("poses") && !poses) refuse("refine", "poses are refined where --poses gives them");
  if (!wanted) {
    const std::string why = options.bundle_adjust == "off"
                                ? "bundle-adjust is off"
                                : "that needs the heads camera and depth, and a cloud of depth or "
                                  "--bundle-adjust on";
    if (options.camera != "auto") refuse("camera", "it says what is adjusted, but " + why);
    if (!options.refine.empty()) refuse("refine", "nothing is adjusted, as " + why);
  }
  AdjustOptions adjust;
  adjust.must = options.bundle_adjust == "on";
  if (options.camera != "auto") adjust.model = camera_model_named(options.camera);
  if (intrinsics) {
    if (adjust.model && !refined("intrinsics"))
      refuse("camera", "the intrinsics are known; with --refine intrinsics they change, by this model");
    adjust.intrinsics = refined("intrinsics") ? Known::nearly : Known::exactly;
    adjust.may_distort = !adjust.model && refined("intrinsics") && is_one_for_all(given) &&
                         given.intrinsics.front().camera.model == CameraModel::simple_pinhole;
    if (!adjust.model && !adjust.may_distort) adjust.model = model_of_all(given.intrinsics);
  }
  if (poses) adjust.poses = refined("poses") ? Known::nearly : Known::exactly;
  return adjust;
}

void check_given(const GivenCameras& given, const FrameSet& frames) {
  if (is_one_for_all(given)) refuse_several_sizes(given, frames);
  if (!given.intrinsics_name.empty()) {
    const std::vector<std::optional<Camera>> known = known_intrinsics(given, frames);
    for (std::size_t i = 0; i < known.size(); ++i) {
      const Frame& frame = frames.frames[i];
      if (!known[i]) refuse("intrinsics", given.intrinsics_name + ": has none for '" + frame.file + "'");
      const bool other_size =
          known[i]->width > 1 && known[i]->height > 0 &&
          (known[i]->width != frame.original_width || known[i]->height != frame.original_height);
      if (other_size)
        refuse("intrinsics", given.intrinsics_name + ": is for " + std::to_string(known[i]->width) + "x" +
                                 std::to_string(known[i]->height) + " pixels, but '" + frame.file + "' has " +
                                 std::to_string(frame.original_width) + "x" +
                                 std::to_string(frame.original_height));
      if (known[i]->valid) refuse_odd_lens(given, *known[i], frame);
    }
  }
  if (given.poses_name.empty()) return;
  const std::vector<std::optional<Camera>> known = known_poses(given, frames);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) refuse("poses", given.poses_name + ": has none for '" + frames.frames[i].file + "'");
  }
}

std::string doubt_of_intrinsics(const GivenCameras& given, const FrameSet& frames) {
  constexpr double kFarOff = 0.15;  // of a side; halves of another size's are .25 off
  if (given.intrinsics_name.empty()) return "";
  const std::vector<std::optional<Camera>> known = known_intrinsics(given, frames);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Frame& frame = frames.frames[i];
    if (!known[i] || !known[i]->valid) continue;
    const Eigen::Array2d size(frame.original_width, frame.original_height),
        centre(known[i]->k(0, 2), known[i]->k(1, 2));
    if (((centre / size - 0.5).abs() < kFarOff).all()) continue;
    std::array<char, 60> text{};
    std::snprintf(text.data(), text.size(), "%.6g, %.6g", centre.x() + 0.5, centre.y() + 0.5);
    return given.intrinsics_name + ": the principal point " + text.data() + " is far from the middle of '" +
           frame.file + "' of " + std::to_string(frame.original_width) + "x" +
           std::to_string(frame.original_height) +
           " pixels: unless it was cropped at one side, they are of images of another size";
  }
  return "";
}

std::vector<Eigen::Vector3d> take_intrinsics(const GivenCameras& given, const FrameSet& frames,
                                             std::vector<Camera>& cameras) {
  std::vector<Eigen::Vector3d> axes;
  if (given.intrinsics_name.empty()) return axes;
  std::vector<Camera> seen;
  const std::vector<std::optional<Camera>> known = known_intrinsics(given, frames);
  const bool numbered = are_numbered(known);
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    Camera& camera = cameras[i];
    Camera own = *known[i];
    own.original_width = camera.original_width;
    own.original_height = camera.original_height;
    auto same = std::ranges::find_if(seen, [&](const Camera& other) {
      return same_intrinsics(own, other) && (!numbered || own.camera_id == other.camera_id);
    });
    if (same == seen.end()) same = seen.insert(seen.end(), own);
    camera.k << own.k(0, 0) * camera.map.scale_x, 0, camera.map.network_x(own.k(0, 2)), 0,
        own.k(1, 1) * camera.map.scale_y, camera.map.network_y(own.k(1, 2)), 0, 0, 1;
    camera.distortion = own.distortion;
    camera.model = own.model;
    camera.camera_id = static_cast<int>(same - seen.begin());
    axes.push_back(middle_ray(camera));
    if (!is_own_axis(axes.back()))
      camera.cam_from_world.prerotate(
          Eigen::Quaterniond::FromTwoVectors(Eigen::Vector3d::UnitZ(), axes.back()));
  }
  return axes;
}

double take_poses(const GivenCameras& given, const FrameSet& frames, std::vector<Camera>& cameras) {
  if (given.poses_name.empty()) return 1;
  const std::vector<std::optional<Camera>> known = known_poses(given, frames);
  std::vector<CameraPair> pairs;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (cameras[i].valid) pairs.push_back({cameras[i], *known[i]});
    cameras[i].cam_from_world = known[i]->cam_from_world;
  }
  if (pairs.size() < 2) return 1;
  const double scale = scale_of(align(pairs));
  return scale > 0 && std::isfinite(scale) ? scale : 1;
}

std::vector<float> axis_factors(const Camera& camera, const Eigen::Vector3d& axis) {
  if (is_own_axis(axis)) return {};
  std::vector<float> factors;
  for (int y = 0; y < camera.height; ++y) {
    for (int x = 0; x < camera.width; ++x) {
      const double along = camera.ray(Eigen::Vector2d(x, y)).dot(axis);  // of a point of depth 1
      factors.push_back(along > 0 && std::isfinite(along) ? static_cast<float>(1 / along) : 1);
    }
  }
  return factors;
}

}  // namespace vggt
