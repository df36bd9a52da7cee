// Reconstructs two grey frames with the weights given: core FILE
#include <cmath>
#include <cstdio>
#include <map>

#include "attention/attention.h"
#include "io/weights/weight_file.h"
#include "model/vggt.h"

int main(int, char** argv) {
  const at::Tensor x = at::ones({1, 2, 5, 64});  // [B,A,N,D]
  if (!at::allclose(vggt::attention(x, x, x).out, x)) return 1;

  const vggt::WeightFile file = vggt::WeightFile::open(argv[1]);
  vggt::TensorSource source;
  for (const auto& [name, tensor] : file.tensors()) source.shapes[name] = tensor.shape;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device device) {
    return file.load(name, type, device);
  };
  vggt::ModelOptions options;
  options.heads.camera = true;
  vggt::Vggt model(vggt::read_config(file.config_json(), source.shapes), source, options);

  const at::Tensor frames = at::full({2, 3, 56, 70}, 0.5);  // [S,3,H,W]
  vggt::FrameProvider provider{2, 56, 70,
                               [&](int64_t first, int64_t count) { return frames.narrow(0, first, count); }};
  double focal = NAN;
  vggt::Sink sink;
  sink.cameras = [&](const vggt::CameraPrediction& c) { focal = c.intrinsic[0][0][0].item<double>(); };
  model.run(provider, {}, sink);
  std::printf("%zu tensors, focal length %g pixels\n", file.tensors().size(), focal);
  return std::isfinite(focal) ? 0 : 1;
}
