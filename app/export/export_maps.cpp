#include "app/export/export_maps.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "app/scene/median.h"
#include "io/files/atomic_file.h"
#include "io/frames/decoding_budget.h"

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

/// Reads the map of a frame: 0 where there is no value, in its padding and where its mask is black.
class MapReader {
 public:
  MapReader(const ExportInput& input, MapKind kind) : input_(input), kind_(kind) {}

  std::vector<float> operator()(std::size_t frame) const {
    DenseMaps::Buffer buffer;
    const int number = static_cast<int>(frame);
    const std::span<const float> map = kind_ == MapKind::depth ? input_.depth->values(number, buffer)
                                                               : input_.depth->confidence(number, buffer);
    std::vector<uint8_t> used(map.size(), 1);
    if (input_.read_mask) input_.read_mask(frame, used);
    std::vector<float> values(map.size());
    const FrameView& seen = input_.seen[frame];
    for (int y = seen.begin_y; y < seen.end_y; ++y) {
      for (int x = seen.begin_x; x < seen.end_x; ++x) {
        const auto pixel = static_cast<std::size_t>(y) * static_cast<std::size_t>(input_.network_width) +
                           static_cast<std::size_t>(x);
        if (used[pixel] != 0 && is_value(map[pixel])) values[pixel] = map[pixel];
      }
    }
    return values;
  }

 private:
  const ExportInput& input_;
  MapKind kind_;
};

const char* extension_of(MapFormat format) {
  return format == MapFormat::png ? ".png" : format == MapFormat::exr ? ".exr" : ".npy";
}

ValueMap stored_map(std::vector<float> values, int width) {
  const int height = static_cast<int>(values.size()) / width;
  return {width, height, [values = std::move(values)](int y, std::span<float> row) {
            std::ranges::copy(std::span(values).subspan(static_cast<std::size_t>(y) * row.size(), row.size()),
                              row.begin());
          }};
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

ValueMap at_image_size(std::vector<float> map, int network_width, const FrameView& seen, const Camera& camera,
                       const ImageView& view) {
  const ViewedImage image(camera, view);
  const bool straight = !view.undistorted || !camera.is_distorted();  // then the map is affine
  const auto network = [image, map = camera.map](double x, double y) {
    const Eigen::Vector2d original = image.to_original({x, y});
    return Eigen::Vector2d(map.network_x(original.x()), map.network_y(original.y()));
  };
  const Eigen::Vector2d first = network(0, 0), across = network(1, 0) - first, down = network(0, 1) - first;
  const auto read_row = [=, map = std::move(map)](int y, std::span<float> row) {
    const MapSampler sample(map, network_width, seen);
    for (int x = 0; x < static_cast<int>(row.size()); ++x) {
      const Eigen::Vector2d at = straight ? Eigen::Vector2d(first + x * across + y * down) : network(x, y);
      row[static_cast<std::size_t>(x)] = sample(at.x(), at.y());
    }
  };
  return {image.camera().width, image.camera().height, read_row};
}

std::size_t map_bytes(const ExportPlan& plan, int width, int height) {
  constexpr std::size_t kRows = 32;  // of floats, as they are and compressed
  const auto columns = static_cast<std::size_t>(width), rows = static_cast<std::size_t>(height);
  if (plan.network_size) return 0;
  // PNGs of noise are larger than their pixels.
  if (plan.map_format == MapFormat::png) return 4 * columns * rows + columns * rows / 8;
  return kRows * sizeof(float) * columns;
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

void export_maps(const fs::path& folder, MapKind kind, const ExportPlan& plan, const ExportInput& input,
                 const ExportedImages& images) {
  const std::size_t frames = input.seen.size();
  const MapReader read(input, kind);
  const auto each_map = [&](const auto& take) {
    for_each_frame(input.work, static_cast<int>(frames), [&](int number, int) {
      const auto frame = static_cast<std::size_t>(number);
      if (input.depth->has(number)) take(frame, read(frame));
    });
  };
  double unit = 1;
  if (plan.map_format == MapFormat::png) {
    std::vector<double> greatest(frames), medians(frames);
    each_map([&](std::size_t frame, std::vector<float> values) {
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
  DecodingBudget budget(input.image_bytes);
  each_map([&](std::size_t frame, std::vector<float> values) {
    const FrameCamera& of = input.cameras[frame];
    const DecodingBudget::Lease lease(budget,
                                      map_bytes(plan, of.camera.original_width, of.camera.original_height));
    const ValueMap map = plan.network_size ? stored_map(std::move(values), input.network_width)
                                           : at_image_size(std::move(values), input.network_width,
                                                           input.seen[frame], of.camera, images.view(frame));
    write_map(folder / names[frame], plan.map_format, map, unit);
    entries[frame] = {
        {"frame", of.file}, {"map", names[frame]}, {"width", map.width}, {"height", map.height}};
  });
  std::erase_if(entries, [](const json& entry) { return entry.is_null(); });
  const json all = {{"values", kind == MapKind::depth ? "depth" : "confidence"},
                    {"unit", unit},
                    {"none", 0},
                    {"size", plan.network_size ? "network" : "image"},
                    {"maps", entries}};
  const std::string text = all.dump(1, ' ', false, json::error_handler_t::replace);
  write_atomically(folder / "maps.json", [&](std::ostream& out) { out << text << '\n'; });
}

}  // namespace vggt
