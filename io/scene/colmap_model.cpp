#include "io/scene/colmap_model.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>

#include "io/files/atomic_file.h"
#include "io/files/numbers.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "COLMAP's binary files are little-endian");

constexpr uint64_t kNoPoint = std::numeric_limits<uint64_t>::max();

template <class Value>
void put(std::ostream& out, Value value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Writes one kind of record as text or as bytes, field by field.
class Records {
 public:
  Records(std::ostream& out, bool binary) : out_(out), binary_(binary) {}

  void count(std::size_t records, const char* what) {
    if (binary_) return put(out_, static_cast<uint64_t>(records));
    out_ << "# " << what << "\n# Number: " << records << '\n';
  }
  template <class Stored>
  void whole(auto value) {
    if (binary_) return put(out_, static_cast<Stored>(value));
    word(std::to_string(value));
  }
  void real(double value) {
    if (binary_) return put(out_, value);
    word(number_text(value));
  }
  /// A model's number in the binary file, its name in the text.
  void model(CameraModel model) {
    if (binary_) return put(out_, static_cast<int32_t>(model));
    word(std::string(colmap_name(model)));
  }
  void name(const std::string& name) {
    if (binary_) {
      out_.write(name.c_str(), static_cast<std::streamsize>(name.size() + 1));
    } else {
      word(name);
    }
  }
  /// Only the binary file tells how many entries follow.
  void length(std::size_t entries) {
    if (binary_) put(out_, static_cast<uint64_t>(entries));
  }
  /// The point of an observation; only the text knows -1.
  void point_or_none(uint64_t point) {
    if (binary_) return put(out_, point);
    word(point == kNoPoint ? "-1" : std::to_string(point));
  }
  void end_line() {
    if (!binary_) out_ << '\n';
    first_ = true;
  }

 private:
  void word(const std::string& text) {
    out_ << (first_ ? "" : " ") << text;
    first_ = false;
  }

  std::ostream& out_;
  bool binary_;
  bool first_ = true;  // of its line
};

static_assert(static_cast<int>(CameraModel::simple_pinhole) == 0 &&
                  static_cast<int>(CameraModel::pinhole) == 1 &&
                  static_cast<int>(CameraModel::simple_radial) == 2 &&
                  static_cast<int>(CameraModel::radial) == 3,
              "the order is that of COLMAP's numbers");

std::vector<double> parameters_of(const Camera& camera) {
  const double fx = camera.k(0, 0), fy = camera.k(1, 1), cx = camera.k(0, 2) + .5, cy = camera.k(1, 2) + .5;
  switch (camera.model) {
    case CameraModel::simple_pinhole:
      return {(fx + fy) / 2, cx, cy};
    case CameraModel::pinhole:
      return {fx, fy, cx, cy};
    case CameraModel::simple_radial:
      return {(fx + fy) / 2, cx, cy, camera.distortion[0]};
    case CameraModel::radial:
      return {(fx + fy) / 2, cx, cy, camera.distortion[0], camera.distortion[1]};
  }
  return {};
}

/// Which of COLMAP's cameras each image has, from 1 on, and the first image of each.
struct Cameras {
  std::vector<uint32_t> of_image;
  std::vector<std::size_t> first_image;
};

Cameras number_cameras(const std::vector<FrameCamera>& images) {
  Cameras cameras;
  std::map<int, uint32_t> numbers;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const int id = images[i].camera.camera_id;
    const auto known = id < 0 ? numbers.end() : numbers.find(id);
    if (known != numbers.end()) {
      cameras.of_image.push_back(known->second);
      continue;
    }
    cameras.first_image.push_back(i);
    cameras.of_image.push_back(static_cast<uint32_t>(cameras.first_image.size()));
    if (id >= 0) numbers[id] = cameras.of_image.back();
  }
  return cameras;
}

/// Of each image its observations, in the order of the tracks.
struct Sighting {
  Eigen::Vector2d pixel;
  uint64_t point = 0;
};
using Sightings = std::vector<std::vector<Sighting>>;

Sightings sightings_of(const ExportedScene& scene) {
  Sightings sightings(scene.images.size());
  for (std::size_t i = 0; i < scene.tracks.size(); ++i) {
    for (const Observation& seen : scene.tracks[i].observations)
      sightings[static_cast<std::size_t>(seen.frame)].push_back({seen.pixel, i + 1});
  }
  return sightings;
}

void put_cameras(Records& records, const ExportedScene& scene, const Cameras& cameras) {
  records.count(cameras.first_image.size(), "CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]");
  for (std::size_t i = 0; i < cameras.first_image.size(); ++i) {
    const Camera& camera = scene.images[cameras.first_image[i]].camera;
    records.whole<uint32_t>(i + 1);
    records.model(camera.model);
    records.whole<uint64_t>(camera.width);
    records.whole<uint64_t>(camera.height);
    for (const double parameter : parameters_of(camera)) records.real(parameter);
    records.end_line();
  }
}

void put_images(Records& records, const ExportedScene& scene, const Cameras& cameras,
                const Sightings& sightings) {
  records.count(scene.images.size(),
                "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then a line of POINTS2D[] as X Y POINT3D_ID");
  for (std::size_t i = 0; i < scene.images.size(); ++i) {
    const Camera& camera = scene.images[i].camera;
    Eigen::Quaterniond q(camera.cam_from_world.linear());
    q.normalize();
    if (q.w() < 0) q.coeffs() = -q.coeffs();
    const Eigen::Vector3d t = camera.cam_from_world.translation();
    records.whole<uint32_t>(i + 1);
    for (const double value : {q.w(), q.x(), q.y(), q.z(), t.x(), t.y(), t.z()}) records.real(value);
    records.whole<uint32_t>(cameras.of_image[i]);
    records.name(scene.images[i].file);
    records.end_line();
    records.length(sightings[i].size());
    for (const Sighting& seen : sightings[i]) {
      records.real(seen.pixel.x() + .5);
      records.real(seen.pixel.y() + .5);
      records.point_or_none(seen.point);
    }
    records.end_line();
  }
}

void put_point(Records& records, uint64_t id, const Eigen::Vector3d& point, const uint8_t* rgb,
               double error) {
  records.whole<uint64_t>(id);
  for (int axis = 0; axis < 3; ++axis) records.real(point[axis]);
  for (int channel = 0; channel < 3; ++channel) records.whole<uint8_t>(rgb[channel]);
  records.real(error);
}

void put_points(Records& records, const ExportedScene& scene) {
  records.count(scene.tracks.size() + scene.points.points.size(),
                "POINT3D_ID X Y Z R G B ERROR TRACK[] as IMAGE_ID POINT2D_IDX");
  std::vector<uint32_t> used(scene.images.size());  // observations of each image so far
  uint64_t id = 0;
  for (const Track& track : scene.tracks) {
    put_point(records, ++id, track.point_in_world, track.rgb.data(), track.error_px);
    records.length(track.observations.size());
    for (const Observation& seen : track.observations) {
      records.whole<uint32_t>(seen.frame + 1);
      records.whole<uint32_t>(used[static_cast<std::size_t>(seen.frame)]++);
    }
    records.end_line();
  }
  for (std::size_t i = 0; i < scene.points.points.size(); ++i) {
    put_point(records, ++id, scene.points.points[i].cast<double>(), scene.points.colors[i].data(), 0);
    records.length(0);
    records.end_line();
  }
}

}  // namespace

void write_colmap_model(const fs::path& folder, const ExportedScene& scene) {
  const Cameras cameras = number_cameras(scene.images);
  const Sightings sightings = sightings_of(scene);
  for (const bool binary : {true, false}) {
    const char* extension = binary ? ".bin" : ".txt";
    const auto write = [&](const std::string& name, const auto& body) {
      write_atomically(folder / (name + extension), [&](std::ostream& out) {
        Records records(out, binary);
        body(records);
      });
    };
    write("cameras", [&](Records& records) { put_cameras(records, scene, cameras); });
    write("images", [&](Records& records) { put_images(records, scene, cameras, sightings); });
    write("points3D", [&](Records& records) { put_points(records, scene); });
  }
}

}  // namespace vggt
