#include "io/scene/prediction_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace vggt {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

Shapes tensors_of(const PredictionShapes& p) {
  const int64_t s = p.frames, h = p.height, w = p.width, q = p.queries;
  Shapes shapes = {{"images", {s, 3, h, w}}};
  if (p.camera)
    shapes.insert(shapes.end(), {{"pose_enc", {s, 9}}, {"extrinsic", {s, 3, 4}}, {"intrinsic", {s, 3, 3}}});
  if (p.depth) shapes.insert(shapes.end(), {{"depth", {s, h, w}}, {"depth_conf", {s, h, w}}});
  if (p.points)
    shapes.insert(shapes.end(), {{"world_points", {s, h, w, 3}}, {"world_points_conf", {s, h, w}}});
  if (q > 0)
    shapes.insert(shapes.end(), {{"track", {s, q, 2}}, {"track_vis", {s, q}}, {"track_conf", {s, q}}});
  return shapes;
}

int64_t values_of_frame(const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) values *= shape[i];
  return values;
}

}  // namespace

PredictionsWriter::PredictionsWriter(const std::filesystem::path& path,
                                     const std::filesystem::path& final_path, const PredictionShapes& shapes)
    : final_path_(final_path) {
  nlohmann::ordered_json header;
  uint64_t end = 0;
  for (const auto& [name, shape] : tensors_of(shapes)) {
    const int64_t frame_values = values_of_frame(shape);
    const uint64_t bytes = sizeof(float) * static_cast<uint64_t>(shape[0] * frame_values);
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    places_[name] = {shape, end, frame_values, 0};
    end += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();
  for (auto& [name, place] : places_) place.offset += sizeof header_bytes + header_bytes;

  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  const auto size = static_cast<off_t>(sizeof header_bytes + header_bytes + end);
  // A disk that is too small shall show now, not after the work.
  const int error = posix_fallocate(descriptor_, 0, size);
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    ::close(descriptor_);
    fail(error);
  }
  write_at(0, &header_bytes, sizeof header_bytes);
  write_at(sizeof header_bytes, text.data(), text.size());
}

PredictionsWriter::~PredictionsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PredictionsWriter::write(const std::string& name, int64_t first, int64_t count, const float* values) {
  const auto found = places_.find(name);
  if (found == places_.end() || first < 0 || count < 0 || first + count > found->second.shape[0]) {
    throw std::logic_error("predictions: '" + name + "' has no such frames");
  }
  Place& place = found->second;
  const uint64_t frame_bytes = sizeof(float) * static_cast<uint64_t>(place.frame_values);
  write_at(place.offset + frame_bytes * static_cast<uint64_t>(first), values,
           static_cast<std::size_t>(frame_bytes * static_cast<uint64_t>(count)));
  place.frames_written += count;
}

void PredictionsWriter::close() {
  for (const auto& [name, place] : places_) {
    if (place.frames_written != place.shape[0])
      throw std::logic_error("predictions: '" + name + "' is incomplete");
  }
  const int descriptor = std::exchange(descriptor_, -1);
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL;
  const int sync_error = errno;
  if (::close(descriptor) != 0) fail(errno);
  if (!synced) fail(sync_error);
}

void PredictionsWriter::write_at(uint64_t offset, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : ENOSPC);
    from += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
}

void PredictionsWriter::fail(int error) const {
  throw std::system_error(error, std::generic_category(), "cannot write " + final_path_.string());
}

}  // namespace vggt
