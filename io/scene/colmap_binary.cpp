#include "io/scene/colmap_binary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/files/byte_reader.h"
#include "io/files/input_file.h"
#include "io/scene/text_lines.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

struct ModelOfFile {
  std::string_view name;
  std::size_t numbers;
};
/// COLMAP's camera models in the order of their numbers, as of COLMAP 4.2.
constexpr std::array<ModelOfFile, 18> kModels = {{{"SIMPLE_PINHOLE", 3},
                                                  {"PINHOLE", 4},
                                                  {"SIMPLE_RADIAL", 4},
                                                  {"RADIAL", 5},
                                                  {"OPENCV", 8},
                                                  {"OPENCV_FISHEYE", 8},
                                                  {"FULL_OPENCV", 12},
                                                  {"FOV", 5},
                                                  {"SIMPLE_RADIAL_FISHEYE", 4},
                                                  {"RADIAL_FISHEYE", 5},
                                                  {"THIN_PRISM_FISHEYE", 12},
                                                  {"RAD_TAN_THIN_PRISM_FISHEYE", 16},
                                                  {"SIMPLE_DIVISION", 4},
                                                  {"DIVISION", 5},
                                                  {"SIMPLE_FISHEYE", 3},
                                                  {"FISHEYE", 4},
                                                  {"EUCM", 6},
                                                  {"EQUIRECTANGULAR", 2}}};

double take_finite(ByteReader& values) {
  const auto value = std::bit_cast<double>(values.number<uint64_t>());
  if (!std::isfinite(value)) throw std::invalid_argument("a number is not finite");
  return value;
}

/// Up to the next byte 0.
std::string take_name(ByteReader& values) {
  constexpr std::size_t kMost = 4096;  // of a path on Linux
  std::string text;
  for (auto c = values.number<char>(); c != '\0'; c = values.number<char>()) {
    text += c;
    if (text.size() > kMost) throw std::invalid_argument("a name has no end");
  }
  return text;
}

using CamerasById = std::map<uint32_t, Camera>;

Camera take_camera(ByteReader& values, LensReading lenses) {
  const auto model = values.number<int32_t>();
  const auto width = static_cast<double>(values.number<uint64_t>()),
             height = static_cast<double>(values.number<uint64_t>());
  if (model < 0 || static_cast<std::size_t>(model) >= kModels.size())
    throw std::invalid_argument("no camera model has the number " + std::to_string(model));
  const ModelOfFile& kind = kModels.at(static_cast<std::size_t>(model));
  std::vector<double> numbers;
  while (numbers.size() < kind.numbers) numbers.push_back(take_finite(values));
  Camera camera;
  const bool has_focal = kind.name != "EQUIRECTANGULAR";
  if (!has_focal && lenses == LensReading::as_far_as_known) return camera;
  // A wrong size or focal length is said before a lens that is not known.
  set_simple_intrinsics(camera, width, height, numbers[0]);
  set_lens(camera, colmap_lens(kind.name, width, height, numbers), lenses);
  return camera;
}

CamerasById take_cameras(ByteReader& values, LensReading lenses) {
  CamerasById cameras;
  for (auto left = values.number<uint64_t>(); left > 0; --left) {
    const auto id = values.number<uint32_t>();
    Camera camera = take_camera(values, lenses);
    camera.camera_id = static_cast<int>(cameras.size());
    if (!cameras.emplace(id, camera).second)
      throw std::invalid_argument("camera " + std::to_string(id) + " is there twice");
  }
  return cameras;
}

std::vector<FrameCamera> take_images(ByteReader& values, const CamerasById& cameras) {
  constexpr uint64_t kObservation = 24;  // x, y and the number of a point
  std::vector<FrameCamera> frames;
  for (auto left = values.number<uint64_t>(); left > 0; --left) {
    FrameCamera frame;
    frame.as_stored = true;
    values.number<uint32_t>();  // the image's number
    std::array<double, 7> pose{};
    for (double& number : pose) number = take_finite(values);
    const auto camera = cameras.find(values.number<uint32_t>());
    if (camera != cameras.end()) frame.camera = camera->second;
    frame.camera.cam_from_world.linear() =
        unit_quaternion({pose[0], pose[1], pose[2], pose[3]}).toRotationMatrix();
    frame.camera.cam_from_world.translation() << pose[4], pose[5], pose[6];
    frame.file = take_name(values);
    const auto observations = values.number<uint64_t>();
    values.take(std::min(observations, values.left() / kObservation + 1) * kObservation);
    frames.push_back(std::move(frame));
  }
  return frames;
}

/// All that a file holds.
template <class Take>
auto whole_of(const fs::path& path, const Take& take) try {
  const FileMapping mapping{InputFile(path)};
  ByteReader values(mapping.bytes());
  auto result = take(values);
  if (values.left() > 0) throw std::invalid_argument("it goes on after its last record");
  return result;
} catch (const std::invalid_argument& error) {
  throw std::invalid_argument(path.string() + ": as COLMAP's binary file: " + error.what());
}

}  // namespace

std::vector<FrameCamera> read_colmap_binary(const fs::path& path, LensReading lenses) {
  const fs::path beside = path.parent_path() / "cameras.bin";
  CamerasById cameras;
  if (fs::exists(beside))
    cameras = whole_of(beside, [&](ByteReader& values) { return take_cameras(values, lenses); });
  return whole_of(path, [&](ByteReader& values) { return take_images(values, cameras); });
}

}  // namespace vggt
