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

std::string proc_path_of(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

/// Opens a file that has no name, in the folder of `path` or the one that this will be made in; -1 where the
/// system has no such files, or could give it no name later.
int open_unnamed(const std::filesystem::path& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  std::error_code ignored;
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, ignored))
    folder = folder.parent_path();
  const int descriptor = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0 || std::filesystem::exists(proc_path_of(descriptor), ignored)) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Gives an open file without a name the name `place`, or copies it there. Returns errno's value, or 0.
int name_file(int descriptor, const std::filesystem::path& place) {
  const std::string file = proc_path_of(descriptor);
  if (linkat(AT_FDCWD, file.c_str(), AT_FDCWD, place.c_str(), AT_SYMLINK_FOLLOW) == 0) return 0;
  std::error_code error;
  std::filesystem::copy_file(file, place, error);
  return error.value();
}

}  // namespace

PredictionsWriter::File::~File() {
  if (descriptor >= 0) ::close(descriptor);
}

PredictionsWriter::PredictionsWriter(const std::filesystem::path& path,
                                     std::function<std::filesystem::path()> place,
                                     const PredictionShapes& shapes)
    : path_(path), place_(std::move(place)), file_{open_unnamed(path)}, has_name_(file_.descriptor < 0) {
  const std::vector<TensorDescription> tensors = tensors_of(shapes);
  const SafetensorsHeader header = make_safetensors_header(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors_[tensors[i].name] = {tensors[i].shape, header.offsets[i], values_of_frame(tensors[i].shape), 0};

  if (has_name_) file_.descriptor = open(place_().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_.descriptor < 0) fail(errno);
  // Allocated now, so that a disk that is too small fails before the work and not after it.
  const int error = posix_fallocate(file_.descriptor, 0, static_cast<off_t>(header.file_bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) fail(error);
  write_at(0, header.bytes.data(), header.bytes.size());
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
  const bool synced = fsync(file_.descriptor) == 0 || errno == EINVAL;
  if (!synced) fail(errno);
  if (!has_name_) {
    const int error = name_file(file_.descriptor, place_());
    if (error != 0) fail(error);
  }
  if (::close(std::exchange(file_.descriptor, -1)) != 0) fail(errno);
}

void PredictionsWriter::write_at(uint64_t offset, const void* data, std::size_t bytes) {
  const int error = vggt::write_at(file_.descriptor, offset, {static_cast<const std::byte*>(data), bytes});
  if (error != 0) fail(error);
}

void PredictionsWriter::fail(int error) const {
  throw std::system_error(error, std::generic_category(), "cannot write " + path_.string());
}

}  // namespace vggt
