#include "io/scene/prediction_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "io/files/write_at.h"
#include "io/tensors/safetensors.h"

namespace vggt {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

std::vector<TensorDescription> tensors_of(const PredictionShapes& p) {
  const int64_t s = p.frames, h = p.height, w = p.width, q = p.queries;
  std::vector<TensorDescription> tensors;
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    tensors.push_back({name, ElementType::f32, std::move(shape)});
  };
  add("images", {s, 3, h, w});
  if (p.camera) add("pose_enc", {s, 9}), add("extrinsic", {s, 3, 4}), add("intrinsic", {s, 3, 3});
  if (p.depth) add("depth", {s, h, w}), add("depth_conf", {s, h, w});
  if (p.points) add("world_points", {s, h, w, 3}), add("world_points_conf", {s, h, w});
  if (q > 0) add("track", {s, q, 2}), add("track_vis", {s, q}), add("track_conf", {s, q});
  return tensors;
}

int64_t values_of_frame(const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) values *= shape[i];
  return values;
}

/// By this a name can be given to an open file.
std::string link_to(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

/// Opens a file that has no name, in the folder of `path` or the one that this will be made in; -1 where the
/// system has no such files, or could give it no name later.
int open_unnamed(const std::filesystem::path& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code ignored;
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, ignored))
    folder = folder.parent_path();
  const int descriptor = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0 || std::filesystem::exists(link_to(descriptor), ignored)) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

PredictionsWriter::PredictionsWriter(const std::filesystem::path& path,
                                     std::function<std::filesystem::path()> place,
                                     const PredictionShapes& shapes)
    : path_(path), place_(std::move(place)), descriptor_(open_unnamed(path)), has_name_(descriptor_ < 0) {
  const std::vector<TensorDescription> tensors = tensors_of(shapes);
  const SafetensorsHeader header = make_safetensors_header(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors_[tensors[i].name] = {tensors[i].shape, header.offsets[i], values_of_frame(tensors[i].shape), 0};

  if (has_name_) descriptor_ = open(place_().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  // Allocated now, so that a disk that is too small fails before the work and not after it.
  const int error = posix_fallocate(descriptor_, 0, static_cast<off_t>(header.file_bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    ::close(descriptor_);
    fail(error);
  }
  write_at(0, header.bytes.data(), header.bytes.size());
}

PredictionsWriter::~PredictionsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PredictionsWriter::write(const std::string& name, int64_t first, int64_t count, const float* values) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end() || first < 0 || count < 0 || first + count > found->second.shape[0]) {
    throw std::logic_error("predictions: '" + name + "' has no such frames");
  }
  Tensor& tensor = found->second;
  const uint64_t frame_bytes = sizeof(float) * static_cast<uint64_t>(tensor.frame_values);
  write_at(tensor.offset + frame_bytes * static_cast<uint64_t>(first), values,
           static_cast<std::size_t>(frame_bytes * static_cast<uint64_t>(count)));
  tensor.frames_written += count;
}

void PredictionsWriter::close() {
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.frames_written != tensor.shape[0])
      throw std::logic_error("predictions: '" + name + "' is incomplete");
  }
  const int descriptor = std::exchange(descriptor_, -1);
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL;
  const int sync_error = errno;
  const bool named = has_name_ || linkat(AT_FDCWD, link_to(descriptor).c_str(), AT_FDCWD, place_().c_str(),
                                         AT_SYMLINK_FOLLOW) == 0;
  const int naming_error = errno;
  if (::close(descriptor) != 0) fail(errno);
  if (!synced) fail(sync_error);
  if (!named) fail(naming_error);
}

void PredictionsWriter::write_at(uint64_t offset, const void* data, std::size_t bytes) {
  const int error = vggt::write_at(descriptor_, offset, {static_cast<const std::byte*>(data), bytes});
  if (error != 0) fail(error);
}

void PredictionsWriter::fail(int error) const {
  throw std::system_error(error, std::generic_category(), "cannot write " + path_.string());
}

}  // namespace vggt
