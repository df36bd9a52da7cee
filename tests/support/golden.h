#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/weights/weight_file.h"
#include "model/vggt.h"

// Running the model on golden cases: PyTorch's tensors, by name, beside ours.
namespace vggt::testing {

using Tensors = std::map<std::string, at::Tensor>;

inline Tensors load_tensors(const std::filesystem::path& path) {
  const WeightFile file = WeightFile::open(path);
  Tensors tensors;
  for (const auto& [name, stored] : file.tensors()) tensors[name] = file.load(name, at::kFloat, at::kCPU);
  return tensors;
}

inline TensorSource source_of(const WeightFile& file) {
  TensorSource source;
  for (const auto& [name, stored] : file.tensors()) source.shapes[name] = stored.shape;
  source.load = [&file](const std::string& name, at::ScalarType type, at::Device device) {
    return file.load(name, type, device);
  };
  return source;
}

inline FrameProvider provide(const at::Tensor& images) {
  return {images.size(0), images.size(2), images.size(3),
          [images](int64_t first, int64_t count) { return images.narrow(0, first, count); }};
}

/// Every tensor that the model reports or hands out, under the golden files' names, on the CPU.
inline Tensors run_all(const Vggt& model, const at::Tensor& images, const at::Tensor& query_points) {
  Tensors got;
  const auto append = [&](const std::string& name, const at::Tensor& part, int64_t first) {
    if (!got[name].defined()) {
      std::vector<int64_t> shape = part.sizes().vec();
      shape[0] = images.size(0);
      got[name] = at::full(shape, std::nan(""), part.options());
    }
    got[name].narrow(0, first, part.size(0)).copy_(part);
  };
  Sink sink;
  sink.cameras = [&](const CameraPrediction& cameras) {
    got["extrinsic"] = cameras.extrinsic;
    got["intrinsic"] = cameras.intrinsic;
  };
  sink.depth = [&](const DensePrediction& dense) {
    append("depth", dense.depth, dense.first_frame);
    append("depth_conf", dense.depth_conf, dense.first_frame);
  };
  sink.points = [&](const DensePrediction& dense) {
    append("world_points", dense.world_points, dense.first_frame);
    append("world_points_conf", dense.world_points_conf, dense.first_frame);
  };
  sink.tracks = [&](const TrackPrediction& tracks) {
    got["track_vis"] = tracks.track_vis;
    got["track_conf"] = tracks.track_conf;
  };
  model.run(provide(images), query_points, sink, [&](const StageReport& report) {
    if (report.tensor.defined())
      got[report.name] = report.tensor.to(at::kCPU, report.tensor.scalar_type(), false, true);
  });
  if (got.contains("depth") && got.contains("extrinsic")) {
    got["unprojected_points"] = unproject(got["depth"], got["extrinsic"], got["intrinsic"]);
  }
  return got;
}

/// max|a-b| / max|b|, 0 where both are all zero; infinite if a holds NaN.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const double error = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  const double scale = b.to(at::kDouble).abs().max().item<double>();
  if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
  return error == 0 ? 0 : error / scale;
}

}  // namespace vggt::testing
