#include "io/scene/prediction_reader.h"

#include <Eigen/Geometry>
#include <cmath>
#include <stdexcept>

#include "io/tensors/safetensors.h"
#include "io/tensors/tensor_values.h"

namespace vggt {
namespace {

constexpr int64_t kAny = -1;

template <int kColumns>
using Rows = Eigen::Matrix<float, 3, kColumns, Eigen::RowMajor>;

bool is_mask(ElementType type) {
  return type == ElementType::boolean || type == ElementType::u8;
}

}  // namespace

PredictionFile::PredictionFile(const std::filesystem::path& path) : file_(path) {
  TensorIndex index;
  try {
    index = read_safetensors(FileMapping(file_).bytes());
  } catch (const std::invalid_argument& error) {
    fail(std::string("not a valid .safetensors file: ") + error.what());
  }
  keep(index, "extrinsic", {3, 4});
  keep(index, "intrinsic", {3, 3});
  keep(index, "depth", {kAny, kAny});
  keep(index, "valid", {kAny, kAny});
  if (!has_cameras() && !has_depth()) fail("holds neither `extrinsic` nor `depth`");
  if (has_depth() && tensors_.contains("valid") && tensors_["depth"].shape != tensors_["valid"].shape) {
    fail("`depth` and `valid` differ in shape");
  }
}

void PredictionFile::keep(const TensorIndex& index, const std::string& name,
                          std::vector<int64_t> frame_shape) {
  const auto found = index.tensors.find(name);
  if (found == index.tensors.end()) return;
  TensorEntry entry = found->second;
  const std::string shape = shape_text(entry.shape);
  const std::size_t batched = frame_shape.size() + 2;
  if (entry.shape.size() + 1 == batched) entry.shape.insert(entry.shape.begin(), 1);
  bool fits = entry.shape.size() == batched;
  for (std::size_t i = 0; fits && i < batched; ++i) {
    const int64_t expected = i < 2 ? kAny : frame_shape[i - 2];
    fits = entry.shape[i] >= 1 && (expected == kAny || entry.shape[i] == expected);
  }
  if (!fits) fail("`" + name + "` is " + shape + ", which is not its shape");
  if (name == "valid" ? !is_mask(entry.type) : !is_real(entry.type)) {
    fail("`" + name + "` is " + std::string(element_name(entry.type)) + ", not " +
         (name == "valid" ? "BOOL or U8" : "F64, F32, F16 or BF16"));
  }
  if (tensors_.empty()) {
    scenes_ = entry.shape[0];
    frames_ = entry.shape[1];
  }
  if (entry.shape[0] != scenes_ || entry.shape[1] != frames_) {
    fail("`" + name + "` " + shape + " has another number of scenes or frames than the others");
  }
  tensors_[name] = std::move(entry);
}

std::vector<float> PredictionFile::values(const std::string& name, int64_t scene) const {
  const TensorEntry& entry = tensors_.at(name);
  const auto count = static_cast<std::size_t>(checked_count(entry.shape) / scenes_);
  std::vector<std::byte> bytes(count * element_bytes(entry.type));
  file_.read(entry.offset + static_cast<uint64_t>(scene) * bytes.size(), bytes);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] =
        is_mask(entry.type) ? static_cast<float>(bytes[i]) : tensor_value(entry.type, bytes.data(), i);
  }
  return values;
}

std::vector<FrameCamera> PredictionFile::cameras(int64_t scene) const {
  const std::vector<float> extrinsic = values("extrinsic", scene);  // [S,3,4]
  std::vector<float> intrinsic;                                     // [S,3,3]
  if (tensors_.contains("intrinsic")) intrinsic = values("intrinsic", scene);
  std::vector<FrameCamera> frames(static_cast<std::size_t>(frames_));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Eigen::Matrix4d cam_from_world = Eigen::Matrix4d::Identity();
    cam_from_world.topRows<3>() = Eigen::Map<const Rows<4>>(extrinsic.data() + i * 12).cast<double>();
    frames[i].time_s = static_cast<double>(i);
    try {
      frames[i].camera.cam_from_world = nearest_pose(cam_from_world);
    } catch (const std::invalid_argument& error) {
      fail("scene " + std::to_string(scene) + ", frame " + std::to_string(i) + ": " + error.what());
    }
    if (!intrinsic.empty()) set_intrinsics(frames[i].camera, intrinsic.data() + i * 9);
  }
  return frames;
}

void PredictionFile::set_intrinsics(Camera& camera, const float* intrinsic) const {
  const Eigen::Matrix3d k = Eigen::Map<const Rows<3>>(intrinsic).cast<double>();
  constexpr double kMost = 1 << 30;
  const Eigen::Vector2d center = k.col(2).head<2>();
  const bool usable =
      k.allFinite() && k(0, 0) > 0 && k(1, 1) > 0 && center.minCoeff() > 0 && center.maxCoeff() < kMost / 2;
  if (!usable) return;
  camera.k = k;
  camera.width = static_cast<int>(has_depth() ? tensors_.at("depth").shape[3] : std::lround(2 * center.x()));
  camera.height = static_cast<int>(has_depth() ? tensors_.at("depth").shape[2] : std::lround(2 * center.y()));
}

std::vector<DepthMap> PredictionFile::depth(int64_t scene) const {
  const std::vector<float> depth = values("depth", scene);  // [S,H,W]
  std::vector<float> valid;                                 // [S,H,W]
  if (tensors_.contains("valid")) valid = values("valid", scene);
  const auto& shape = tensors_.at("depth").shape;
  const auto pixels = static_cast<std::size_t>(shape[2] * shape[3]);
  std::vector<DepthMap> maps(static_cast<std::size_t>(frames_));
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const auto from = depth.begin() + static_cast<std::ptrdiff_t>(i * pixels);
    maps[i] = {"",
               static_cast<int>(shape[3]),
               static_cast<int>(shape[2]),
               {from, from + static_cast<std::ptrdiff_t>(pixels)}};
    for (std::size_t k = 0; k < pixels && !valid.empty(); ++k) {
      if (valid[i * pixels + k] == 0) maps[i].values[k] = 0;
    }
  }
  return maps;
}

void PredictionFile::fail(const std::string& what) const {
  throw std::invalid_argument(file_.path().string() + ": " + what);
}

}  // namespace vggt
