#include "io/scene/glb.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <tuple>

#include "io/files/atomic_file.h"

namespace vggt {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "GLB files are little-endian");

/// glTF's colours are linear, those of images are sRGB.
float linear(uint8_t srgb) {
  static const auto table = [] {
    std::array<float, 256> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double s = static_cast<double>(i) / 255;
      values[i] = static_cast<float>(s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4));
    }
    return values;
  }();
  return table[srgb];
}

Eigen::Vector3f linear(const Eigen::Matrix<uint8_t, 3, 1>& rgb) {
  return {linear(rgb[0]), linear(rgb[1]), linear(rgb[2])};
}

/// Vertices of points or lines.
struct Vertices {
  std::vector<Eigen::Vector3f> positions;
  // As floats: bytes would show steps where it is dark, and some readers take 16 bits for 8.
  std::vector<Eigen::Vector3f> colors;
};

Vertices points_of(const PointCloud& cloud) {
  Vertices vertices{cloud.points, {}};
  vertices.colors.reserve(cloud.colors.size());
  for (const auto& rgb : cloud.colors) vertices.colors.push_back(linear(rgb));
  return vertices;
}

Vertices ends_of(const std::vector<ColoredLine>& lines) {
  Vertices vertices;
  for (const ColoredLine& line : lines) {
    vertices.positions.insert(vertices.positions.end(), {line.from, line.to});
    vertices.colors.insert(vertices.colors.end(), 2, linear(line.rgb));
  }
  return vertices;
}

/// Adds a mesh of these vertices, and a node that shows it, to the document; returns the bytes they take.
uint64_t add_mesh(json& document, const char* name, int mode, const Vertices& vertices, uint64_t offset) {
  constexpr int kFloat = 5126, kVertexData = 34962;
  Eigen::Vector3f low = vertices.positions.front(), high = low;
  for (const Eigen::Vector3f& p : vertices.positions) {
    low = low.cwiseMin(p);
    high = high.cwiseMax(p);
  }
  const std::size_t count = vertices.positions.size(), first = document["accessors"].size();
  const uint64_t bytes = count * sizeof(Eigen::Vector3f);  // of positions, and of colours
  const auto add_view = [&](uint64_t at, uint64_t length) {
    document["bufferViews"].push_back(
        {{"buffer", 0}, {"byteOffset", at}, {"byteLength", length}, {"target", kVertexData}});
  };
  add_view(offset, bytes);
  add_view(offset + bytes, bytes);
  document["accessors"].push_back({{"bufferView", first},
                                   {"componentType", kFloat},
                                   {"count", count},
                                   {"type", "VEC3"},
                                   {"min", {low.x(), low.y(), low.z()}},
                                   {"max", {high.x(), high.y(), high.z()}}});
  document["accessors"].push_back(
      {{"bufferView", first + 1}, {"componentType", kFloat}, {"count", count}, {"type", "VEC3"}});
  document["meshes"].push_back(
      {{"name", name},
       {"primitives", {{{"mode", mode}, {"attributes", {{"POSITION", first}, {"COLOR_0", first + 1}}}}}}});
  document["nodes"].push_back({{"name", name}, {"mesh", document["meshes"].size() - 1}});
  document["nodes"][0]["children"].push_back(document["nodes"].size() - 1);
  return 2 * bytes;
}

template <class Values>
void put(std::ostream& out, const Values& values) {
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(values[0])));
}

}  // namespace

void write_glb(const std::filesystem::path& path, const PointCloud& cloud,
               const std::vector<ColoredLine>& lines) {
  constexpr int kPoints = 0, kLines = 1;
  constexpr uint32_t kMagic = 0x46546C67, kVersion = 2, kJson = 0x4E4F534A, kBinary = 0x004E4942;
  constexpr uint32_t kHeaders = 12 + 8 + 8;  // of the file and of its two chunks
  const Vertices points = points_of(cloud), ends = ends_of(lines);
  // Half a turn about x: y down and z ahead become y up and z back.
  json document = {{"asset", {{"version", "2.0"}, {"generator", "vggt-recon"}}},
                   {"scene", 0},
                   {"scenes", {{{"nodes", {0}}}}},
                   {"nodes", {{{"name", "world"}, {"rotation", {1, 0, 0, 0}}}}}};
  uint64_t bytes = 0;
  for (const auto& [name, mode, vertices] :
       {std::tuple("points", kPoints, &points), {"cameras", kLines, &ends}}) {
    if (!vertices->positions.empty()) bytes += add_mesh(document, name, mode, *vertices, bytes);
  }
  if (bytes > 0) document["buffers"] = {{{"byteLength", bytes}}};
  std::string text = document.dump();
  text.resize((text.size() + 3) / 4 * 4, ' ');
  const uint64_t total = kHeaders + text.size() + bytes;
  if (total > std::numeric_limits<uint32_t>::max())
    throw std::invalid_argument(path.string() + ": so many points do not fit into a GLB file");
  write_atomically(path, [&](std::ostream& out) {
    put(out, std::array{kMagic, kVersion, static_cast<uint32_t>(total), static_cast<uint32_t>(text.size()),
                        kJson});
    out << text;
    put(out, std::array{static_cast<uint32_t>(bytes), kBinary});
    for (const Vertices* vertices : {&points, &ends}) {
      put(out, vertices->positions);
      put(out, vertices->colors);
    }
  });
}

}  // namespace vggt
