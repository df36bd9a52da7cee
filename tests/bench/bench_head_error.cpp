// Errors that the type of the dense heads brings, beside those of the trunk's: on a model's own weights and
// frames, as --save-predictions writes them, every combination that the device has against float64 on the
// same device:
//   bench_head_error DEVICE WEIGHTS FRAMES.safetensors [FRAMES.safetensors...]
// Depth and confidences: mean of |difference| / value, and its 99th percentile, over all pixels. Points: the
// distance over the median depth. Cameras do not pass through dense heads.
#include <ATen/Context.h>

#include <cstdio>
#include <string>
#include <vector>

#include "io/weights/weight_file.h"
#include "model/vggt.h"

namespace {

struct Outputs {
  at::Tensor depth, depth_conf, points, points_conf, tracks;  // of all frames
};

struct Way {
  const char* name;
  vggt::Precision precision;
  bool heads_in_bf16;
};

at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return parts.empty() ? at::Tensor() : at::cat(parts).to(at::kDouble);
}

/// Points of frame 0 that the tracker follows: a grid [Q,2].
at::Tensor queries(int64_t height, int64_t width) {
  const auto line = [](int64_t n) {
    return at::linspace(0.1, 0.9, 12, at::kFloat) * static_cast<double>(n - 1);
  };
  const auto grid = at::meshgrid({line(width), line(height)}, "ij");
  return at::stack({grid[0].flatten(), grid[1].flatten()}, 1);
}

Outputs run(const vggt::WeightFile& file, at::Device device, const Way& way, const at::Tensor& images) {
  vggt::TensorSource source;
  for (const auto& [name, stored] : file.tensors()) source.shapes[name] = stored.shape;
  source.load = [&](const std::string& name, at::ScalarType type, at::Device to) {
    return file.load(name, type, to);
  };
  const vggt::Config config = vggt::read_config(file.config_json(), source.shapes);
  vggt::ModelOptions options{
      .device = device, .precision = way.precision, .heads = vggt::heads_in(source.shapes)};
  options.heads_in_bf16 = way.heads_in_bf16;
  at::globalContext().setAllowTF32CuBLAS(way.precision == vggt::Precision::tf32);
  const vggt::Vggt model(config, source, options);
  std::vector<at::Tensor> depth, depth_conf, points, points_conf;
  Outputs outputs;
  vggt::Sink sink;
  sink.depth = [&](const vggt::DensePrediction& d) {
    depth.push_back(d.depth);
    depth_conf.push_back(d.depth_conf);
  };
  sink.points = [&](const vggt::DensePrediction& d) {
    points.push_back(d.world_points);
    points_conf.push_back(d.world_points_conf);
  };
  const int64_t height = images.size(2), width = images.size(3);
  at::Tensor track;
  model.run({images.size(0), height, width,
             [&](int64_t first, int64_t count) { return images.narrow(0, first, count); }},
            options.heads.tracks ? queries(height, width) : at::Tensor(), sink,
            [&](const vggt::StageReport& report) {
              if (report.tensor.defined() && report.name.starts_with("track."))
                track = report.tensor.to(at::kCPU);
            });
  return {joined(depth), joined(depth_conf), joined(points), joined(points_conf),
          track.defined() ? track.to(at::kDouble) : track};
}

void print(const char* what, const at::Tensor& error) {
  const at::Tensor sorted = std::get<0>(error.flatten().sort());
  std::printf("  %s %.2e (99 %%: %.2e)", what, error.mean().item<double>(),
              sorted[sorted.numel() * 99 / 100].item<double>());
}

void print_errors(const Way& way, const Outputs& got, const Outputs& exact) {
  std::printf("%-28s", way.name);
  print("depth", (got.depth - exact.depth).abs() / exact.depth);
  print("confidence", (got.depth_conf - exact.depth_conf).abs() / exact.depth_conf);
  if (exact.points.defined())
    print("points", (got.points - exact.points).norm(2, {3}) / exact.depth.median().item<double>());
  if (exact.tracks.defined()) print("tracks, pixels", (got.tracks - exact.tracks).norm(2, {2}));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  using vggt::Precision;
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: bench_head_error DEVICE WEIGHTS FRAMES.safetensors [FRAMES.safetensors...]\n");
    return 2;
  }
  at::Device device(argv[1]);
  if (device.is_cuda() && !device.has_index()) device.set_index(0);
  std::vector<Way> ways = {{"fp32", Precision::fp32, false}, {"fp32, heads bf16", Precision::fp32, true}};
  if (device.is_cuda() || vggt::cpu_has_bf16()) {
    ways.push_back({"bf16", Precision::bf16, false});
    ways.push_back({"bf16, heads bf16", Precision::bf16, true});
  }
  if (device.is_cuda()) {
    ways.push_back({"fp16", Precision::fp16, false});
    ways.push_back({"fp16, heads bf16", Precision::fp16, true});
  }
  const vggt::WeightFile file = vggt::WeightFile::open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const at::Tensor images =
        vggt::WeightFile::open(argv[i]).load("images", at::kFloat, at::kCPU);  // [S,3,H,W]
    std::printf("%s: %lld frames of %lldx%lld\n", argv[i], static_cast<long long>(images.size(0)),
                static_cast<long long>(images.size(3)), static_cast<long long>(images.size(2)));
    const Outputs exact = run(file, device, {"fp64", Precision::fp64, false}, images.to(at::kDouble));
    for (const Way& way : ways) print_errors(way, run(file, device, way, images), exact);
  }
  return 0;
}
