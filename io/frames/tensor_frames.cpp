#include "io/frames/tensor_frames.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>

#include "io/files/input_file.h"
#include "io/frames/frame_sources.h"
#include "io/tensors/safetensors.h"
#include "io/tensors/tensor_values.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

struct Images {
  ElementType type;
  int64_t frames, height, width;
  uint64_t offset;  // of the values [S,3,H,W] in the file

  std::size_t frame_values() const { return static_cast<std::size_t>(3 * height * width); }
  /// Reads the values of one frame: planes [3,H,W].
  void read(const InputFile& file, std::size_t frame, std::span<float> values) const {
    std::vector<std::byte> bytes(values.size() * element_bytes(type));
    file.read(offset + frame * bytes.size(), bytes);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor_value(type, bytes.data(), i);
  }
};

Images find_images(const FrameOptions& options, std::span<const std::byte> file) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(options.source.string() + ": " + what);
  };
  TensorIndex index;
  try {
    index = read_safetensors(file);
  } catch (const std::invalid_argument& error) {
    fail(std::string("not a valid .safetensors file: ") + error.what());
  }
  const auto found = index.tensors.find("images");
  if (found == index.tensors.end()) fail("holds no tensor `images`");
  const TensorEntry& tensor = found->second;
  const auto& shape = tensor.shape;
  if (shape.size() != 4 || shape[0] < 1 || shape[1] != 3 || shape[2] < 1 || shape[3] < 1) {
    fail("`images` is " + shape_text(shape) + ", not [S,3,H,W]");
  }
  constexpr int64_t kMaxSide = 1 << 20;
  if (shape[2] % options.patch_size != 0 || shape[3] % options.patch_size != 0 || shape[2] > kMaxSide ||
      shape[3] > kMaxSide) {
    fail("`images` is " + shape_text(shape) + ": H and W must be multiples of " +
         std::to_string(options.patch_size));
  }
  if (!is_real(tensor.type))
    fail("`images` is " + std::string(element_name(tensor.type)) + ", not F64, F32, F16 or BF16");
  return {tensor.type, shape[0], shape[2], shape[3], tensor.offset};
}

void check_values(const fs::path& path, std::span<const float> values, std::size_t frame) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !(value >= 0 && value <= 1); });
  if (bad == values.end()) return;
  std::ostringstream text;
  text << path.string() << ": `images` holds " << *bad << " in frame " << frame
       << "; all values must be in [0,1]";
  throw std::invalid_argument(text.str());
}

}  // namespace

FrameSet load_tensor_frames(const FrameOptions& options,
                            const std::function<void(int done, int total)>& progress) {
  const auto file = std::make_shared<const InputFile>(options.source);
  const Images images = find_images(options, FileMapping(*file).bytes());
  const auto chosen = std::make_shared<const std::vector<std::size_t>>(
      choose_evenly(static_cast<std::size_t>(images.frames), options.max_frames));
  FrameSet set;
  set.width = static_cast<int>(images.width);
  set.height = static_cast<int>(images.height);
  std::vector<float> values(set.frame_values());
  for (const std::size_t index : *chosen) {
    images.read(*file, index, values);
    check_values(options.source, values, index);
    Frame& frame = set.frames.emplace_back();
    frame.file = options.source.filename().string() + "#" + std::to_string(index);
    frame.time_s = static_cast<double>(index);
    frame.original_width = set.width;
    frame.original_height = set.height;
    if (progress) progress(static_cast<int>(set.frames.size()), static_cast<int>(chosen->size()));
  }
  set.read_exact = [file, images, chosen](std::size_t frame, std::span<float> to) {
    images.read(*file, chosen->at(frame), to);
  };
  set.read_rgb = [read = set.read_exact](std::size_t frame, std::span<uint8_t> rgb) {
    std::vector<float> exact(rgb.size());
    read(frame, exact);
    for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(std::lround(exact[i] * 255));
  };
  return set;
}

}  // namespace vggt
