#include "app/export/export_maps.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>

#include "app/scene/median.h"
#include "io/files/atomic_file.h"
#include "io/scene/depth_images.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_value(float value) {
  return std::isfinite(value) && value > 0;
}

/// A map between its pixels, inside of what shows the image.
class MapSampler {
 public:
  MapSampler(std::span<const float> map, int width, const FrameView& seen)
      : map_(map), width_(width), seen_(seen) {}

  /// 0 outside of the image, and where there is no value.
  float operator()(double x, double y) const {
    if (!(x >= seen_.begin_x - .5 && x < seen_.end_x - .5 && y >= seen_.begin_y - .5 && y < seen_.end_y - .5))
      return 0;
    const float nearest = at(static_cast<int>(std::lround(x)), static_cast<int>(std::lround(y)));
    if (!is_value(nearest)) return 0;
    const int column = static_cast<int>(std::floor(x)), row = static_cast<int>(std::floor(y));
    const float values[4] = {at(column, row), at(column + 1, row), at(column, row + 1),
                             at(column + 1, row + 1)};
    const auto [low, high] = std::ranges::minmax(values);
    constexpr float kMostSpread = 0.05F;
    if (!std::ranges::all_of(values, is_value) || high - low > kMostSpread * low) return nearest;
    const double right = x - column, down = y - row;
    return static_cast<float>((1 - down) * ((1 - right) * values[0] + right * values[1]) +
                              down * ((1 - right) * values[2] + right * values[3]));
  }

 private:
  float at(int x, int y) const {
    const auto column = static_cast<std::size_t>(std::clamp(x, seen_.begin_x, seen_.end_x - 1));
    const auto row = static_cast<std::size_t>(std::clamp(y, seen_.begin_y, seen_.end_y - 1));
    return map_[row * static_cast<std::size_t>(width_) + column];
  }

  std::span<const float> map_;
  int width_;
  FrameView seen_;
};

/// The map at its own size, without padding.
std::vector<float> at_network_size(std::span<const float> map, int width, const FrameView& seen) {
  std::vector<float> values(map.size());
  for (int y = seen.begin_y; y < seen.end_y; ++y) {
    for (int x = seen.begin_x; x < seen.end_x; ++x) {
      const auto pixel =
          static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
      if (is_value(map[pixel])) values[pixel] = map[pixel];
    }
  }
  return values;
}

const char* extension_of(MapFormat format) {
  return format == MapFormat::png ? ".png" : format == MapFormat::exr ? ".exr" : ".npy";
}

void write_map(const fs::path& path, MapFormat format, const ValueMap& map, double unit) {
  if (format == MapFormat::png) return write_map_png(path, map, unit);
  if (format == MapFormat::exr) return write_map_exr(path, map);
  write_map_npy(path, map);
}

/// The unit of 16-bit values: one for all frames.
double unit_of(const std::vector<double>& greatest, std::vector<double> medians, MapKind kind) {
  constexpr double kMost = 65535, kFarthest = 32;  // medians
  double top = 0;
  for (const double value : greatest) top = std::max(top, value);
  std::erase(medians, 0);
  if (kind == MapKind::depth && !medians.empty()) top = std::min(top, kFarthest * median(std::span(medians)));
  return top > 0 ? top / kMost : 1;
}

}  // namespace

std::vector<float> at_image_size(std::span<const float> map, int network_width, const FrameView& seen,
                                 const Camera& camera, const ImageView& view) {
  const ViewedImage image(camera, view);
  const int width = image.camera().width, height = image.camera().height;
  const MapSampler sample(map, network_width, seen);
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Eigen::Vector2d original = image.to_original({x, y});
      values.push_back(sample(camera.map.network_x(original.x()), camera.map.network_y(original.y())));
    }
  }
  return values;
}

std::vector<std::string> map_names(const ExportedImages& images, std::size_t frames, MapFormat format) {
  std::vector<std::string> names;
  std::set<std::string> stems;
  for (std::size_t i = 0; i < frames; ++i)
    stems.insert(fs::path(images.name(i)).replace_extension().string());
  for (std::size_t i = 0; i < frames; ++i) {
    const std::string& name = images.name(i);
    const bool by_stem = stems.size() == frames;
    names.push_back((by_stem ? fs::path(name).replace_extension().string() : name) + extension_of(format));
  }
  return names;
}

void export_maps(const fs::path& folder, MapKind kind, const ExportPlan& plan, const DenseMaps& maps,
                 const std::vector<FrameView>& seen, int network_width, const ExportedImages& images,
                 const std::vector<FrameCamera>& cameras, const FrameWork& work) {
  const std::size_t frames = seen.size();
  std::vector<DenseMaps::Buffer> buffers(
      static_cast<std::size_t>(threads_for(work, static_cast<int>(frames))));
  const auto each_map = [&](const auto& take) {
    for_each_frame(work, static_cast<int>(frames), [&](int frame, int thread) {
      if (!maps.has(frame)) return;
      DenseMaps::Buffer& buffer = buffers[static_cast<std::size_t>(thread)];
      take(static_cast<std::size_t>(frame),
           kind == MapKind::depth ? maps.values(frame, buffer) : maps.confidence(frame, buffer));
    });
  };

  double unit = 1;
  if (plan.map_format == MapFormat::png) {
    std::vector<double> greatest(frames), medians(frames);
    each_map([&](std::size_t frame, std::span<const float> map) {
      std::vector<float> values = at_network_size(map, network_width, seen[frame]);
      std::erase(values, 0.F);
      if (values.empty()) return;
      greatest[frame] = std::ranges::max(values);
      medians[frame] = median(std::span(values));
    });
    unit = unit_of(greatest, std::move(medians), kind);
  }

  const std::vector<std::string> names = map_names(images, frames, plan.map_format);
  for (const std::string& name : names) fs::create_directories((folder / name).parent_path());
  std::vector<json> entries(frames);
  each_map([&](std::size_t frame, std::span<const float> map) {
    const Camera& camera = cameras[frame].camera;
    const std::vector<float> values =
        plan.network_size ? at_network_size(map, network_width, seen[frame])
                          : at_image_size(map, network_width, seen[frame], camera, images.view(frame));
    ValueMap out{network_width, static_cast<int>(map.size()) / network_width, values};
    if (!plan.network_size) {
      const bool sideways = images.view(frame).quarter_turns % 2 == 1;
      out.width = sideways ? camera.original_height : camera.original_width;
      out.height = sideways ? camera.original_width : camera.original_height;
    }
    write_map(folder / names[frame], plan.map_format, out, unit);
    entries[frame] = {
        {"frame", cameras[frame].file}, {"map", names[frame]}, {"width", out.width}, {"height", out.height}};
  });
  std::erase_if(entries, [](const json& entry) { return entry.is_null(); });
  const json all = {
      {"unit", unit}, {"none", 0}, {"size", plan.network_size ? "network" : "image"}, {"maps", entries}};
  const std::string text = all.dump(1, ' ', false, json::error_handler_t::replace);
  write_atomically(folder / "maps.json", [&](std::ostream& out) { out << text << '\n'; });
}

}  // namespace vggt
