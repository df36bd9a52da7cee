#include "io/scene/colmap_text.h"

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "io/files/numbers.h"
#include "io/files/text.h"
#include "io/scene/text_lines.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string_view>;
using CamerasById = std::map<std::string, Camera, std::less<>>;

bool is_comment(const Words& words) {
  return words.empty() || words.front().starts_with('#');
}

/// Lines "ID MODEL WIDTH HEIGHT f ...".
CamerasById read_intrinsics(const fs::path& path, LensReading lenses) {
  CamerasById cameras;
  each_line(path, [&](std::string_view line) {
    const Words words = words_of(line);
    if (is_comment(words)) return;
    if (words.size() < 5)
      throw std::invalid_argument("has fewer than 5 fields: CAMERA_ID MODEL WIDTH HEIGHT PARAMS");
    std::vector<double> numbers;
    for (const std::string_view word : std::span(words).subspan(4)) numbers.push_back(finite_number(word));
    const auto [entry, is_new] = cameras.try_emplace(std::string(words[0]));
    if (!is_new) throw std::invalid_argument("camera " + printable(words[0]) + " is there twice");
    Camera& camera = entry->second;
    camera.camera_id = static_cast<int>(cameras.size()) - 1;
    // A wrong size or focal length is said before a wrong number of parameters.
    set_simple_intrinsics(camera, finite_number(words[2]), finite_number(words[3]), numbers[0]);
    set_lens(camera, colmap_lens(words[1], camera.width, camera.height, numbers), lenses);
  });
  return cameras;
}

/// Whether a line holds observations: triples of numbers.
bool is_observations(const Words& words) {
  const auto is_number = [](std::string_view word) { return parse_number<double>(word).has_value(); };
  return words.size() % 3 == 0 && std::ranges::all_of(words, is_number);
}

FrameCamera parse_image(const Words& words, const CamerasById& cameras) {
  if (words.size() < 10)
    throw std::invalid_argument("has fewer than 10 fields: IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME");
  const auto value = [&](std::size_t i) { return finite_number(words[i]); };
  FrameCamera frame;
  const char* name_end = words.back().data() + words.back().size();
  frame.file = std::string(words[9].data(), name_end);  // names may hold spaces
  frame.as_stored = true;
  if (const auto found = cameras.find(words[8]); found != cameras.end()) frame.camera = found->second;
  frame.camera.cam_from_world.linear() =
      unit_quaternion({value(1), value(2), value(3), value(4)}).toRotationMatrix();
  frame.camera.cam_from_world.translation() << value(5), value(6), value(7);
  return frame;
}

}  // namespace

std::vector<FrameCamera> read_colmap_images(const fs::path& path, LensReading lenses) {
  const fs::path beside = path.parent_path() / "cameras.txt";
  const CamerasById cameras = fs::exists(beside) ? read_intrinsics(beside, lenses) : CamerasById();
  std::vector<FrameCamera> frames;
  bool after_image = false;
  each_line(path, [&](std::string_view line) {
    const Words words = words_of(line);
    if (is_comment(words)) return;
    // An image without observations has a blank line, or none where somebody left them all out.
    if (std::exchange(after_image, false) && is_observations(words)) return;
    frames.push_back(parse_image(words, cameras));
    after_image = true;
  });
  return frames;
}

}  // namespace vggt
