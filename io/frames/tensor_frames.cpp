#include "io/frames/tensor_frames.h"

#include <bit>
#include <cmath>
#include <cstring>
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
  const std::byte* data;  // [S,3,H,W]
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
  return {tensor.type, shape[0], shape[2], shape[3], file.data() + tensor.offset};
}

Frame make_frame(const fs::path& path, const Images& images, std::size_t index) {
  Frame frame;
  frame.file = path.filename().string() + "#" + std::to_string(index);
  frame.time_s = static_cast<double>(index);
  frame.original_width = static_cast<int>(images.width);
  frame.original_height = static_cast<int>(images.height);
  const std::size_t count = static_cast<std::size_t>(3 * images.height * images.width);
  frame.pixels.resize(count);
  frame.rgb.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = tensor_value(images.type, images.data, index * count + i);
    if (!(value >= 0 && value <= 1)) {
      std::ostringstream text;
      text << path.string() << ": `images` holds " << value << " in frame " << index
           << "; all values must be in [0,1]";
      throw std::invalid_argument(text.str());
    }
    frame.pixels[i] = value;
    frame.rgb[i] = static_cast<uint8_t>(std::lround(value * 255));
  }
  return frame;
}

}  // namespace

FrameSet load_tensor_frames(const FrameOptions& options,
                            const std::function<void(int done, int total)>& progress) {
  const InputFile file(options.source);
  const FileMapping mapping(file);
  const Images images = find_images(options, mapping.bytes());
  const std::vector<std::size_t> chosen =
      choose_evenly(static_cast<std::size_t>(images.frames), options.max_frames);
  FrameSet set;
  set.width = static_cast<int>(images.width);
  set.height = static_cast<int>(images.height);
  for (const std::size_t index : chosen) {
    set.frames.push_back(make_frame(options.source, images, index));
    if (progress) progress(static_cast<int>(set.frames.size()), static_cast<int>(chosen.size()));
  }
  return set;
}

}  // namespace vggt
