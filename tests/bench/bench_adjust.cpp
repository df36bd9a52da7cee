// How exact and how fast cameras and depth are adjusted, without the network:
//   bench_adjust FRAMES PREDICTIONS.safetensors [--truth TRUTH.safetensors] [--errors SEED] [--out
//   CAMERAS.json]
// PREDICTIONS is what `vggt-recon --frames FRAMES --bundle-adjust off --save-predictions` wrote. With
// --errors the predictions are replaced by the truth with errors as of a large network: rotations of 1 to 3
// degrees, directions of 3, focal lengths of 3 %, smooth errors of depth of 5 %. TRUTH holds extrinsic,
// intrinsic, depth and valid, of the originals' size.
#include <Eigen/Geometry>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "app/adjust/adjust_scene.h"
#include "app/scene/median.h"
#include "io/scene/cameras_json.h"
#include "io/scene/prediction_reader.h"

using namespace vggt;

namespace {

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::vector<FrameView> whole(const FrameSet& set) {
  return std::vector<FrameView>(set.frames.size(), {0, set.width, 0, set.height});
}

struct Truth {
  std::vector<FrameCamera> cameras;
  std::vector<DepthMap> depth;
};

/// Medians over all pairs of frames, in degrees.
void print_pose_errors(const char* name, const std::vector<Camera>& found, const Truth& truth) {
  std::vector<double> turns, directions, focals;
  for (std::size_t i = 0; i < found.size(); ++i) {
    focals.push_back(std::abs(found[i].k_original()(0, 0) / truth.cameras[i].camera.k(0, 0) - 1));
    for (std::size_t j = i + 1; j < found.size(); ++j) {
      const Eigen::Isometry3d a = found[j].cam_from_world * found[i].cam_from_world.inverse(),
                              b = truth.cameras[j].camera.cam_from_world *
                                  truth.cameras[i].camera.cam_from_world.inverse();
      const Eigen::Matrix3d turn = a.linear() * b.linear().transpose();
      turns.push_back(Eigen::AngleAxisd(turn).angle() * 180 / M_PI);
      if (b.translation().norm() < 1e-6) continue;
      const double cosine = (a.linear().transpose() * a.translation())
                                .normalized()
                                .dot((b.linear().transpose() * b.translation()).normalized());
      directions.push_back(std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / M_PI);
    }
  }
  std::vector<double> sorted = turns;
  std::ranges::sort(sorted);
  std::printf("%s: rotation %.3f (worst %.2f), direction %.3f degrees, focal length %.2f %%\n", name,
              median(std::span(turns)), sorted.back(), median(std::span(directions)),
              100 * median(std::span(focals)));
}

double depth_error(const MatchInput& input, const DenseMaps& maps, const Truth& truth) {
  std::vector<double> ratios;
  DenseMaps::Buffer buffer;
  for (std::size_t f = 0; f < input.frames.size(); ++f) {
    const std::span<const float> depth = maps.values(static_cast<int>(f), buffer);
    const PixelMap& map = input.frames[f].map;
    const DepthMap& true_depth = truth.depth[f];
    for (int y = 0; y < input.height; ++y) {
      for (int x = 0; x < input.width; ++x) {
        const int column = static_cast<int>(std::lround(map.original_x(x))),
                  row = static_cast<int>(std::lround(map.original_y(y)));
        if (column < 0 || row < 0 || column >= true_depth.width || row >= true_depth.height) continue;
        const float value =
            true_depth.values[static_cast<std::size_t>(row) * static_cast<std::size_t>(true_depth.width) +
                              static_cast<std::size_t>(column)];
        const float ours = depth[static_cast<std::size_t>(y) * static_cast<std::size_t>(input.width) +
                                 static_cast<std::size_t>(x)];
        if (value > 0 && std::isfinite(value) && ours > 0)
          ratios.push_back(static_cast<double>(ours / value));
      }
    }
  }
  const double scale = median(std::span(ratios));
  double sum = 0;
  for (const double ratio : ratios) sum += std::abs(ratio / scale - 1);
  return sum / static_cast<double>(ratios.size());
}

/// The truth with a large network's errors: cameras at network size, depth [H,W].
std::vector<Camera> with_errors(const FrameSet& set, const Truth& truth, unsigned seed,
                                std::vector<std::vector<float>>& depth) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto axis = [&] {
    return Eigen::Vector3d(normal(random), normal(random), normal(random)).normalized();
  };
  std::vector<Camera> cameras;
  const double zoom = 1 + 0.03 * normal(random);
  double median_depth = 0;
  std::vector<double> sample;
  for (const float value : truth.depth[0].values) {
    if (value > 0) sample.push_back(static_cast<double>(value));
  }
  median_depth = median(std::span(sample));
  for (std::size_t f = 0; f < set.frames.size(); ++f) {
    Camera camera = truth.cameras[f].camera;
    const Frame& frame = set.frames[f];
    camera.map = frame.map;
    camera.width = set.width;
    camera.height = set.height;
    camera.original_width = frame.original_width;
    camera.original_height = frame.original_height;
    const double focal = camera.k(0, 0) * zoom * (1 + 0.005 * normal(random));
    camera.k << focal * frame.map.scale_x, 0, set.width / 2.0, 0, focal * frame.map.scale_y * 1.01,
        set.height / 2.0, 0, 0, 1;
    if (f > 0) {
      const double turn = (1 + 2 * std::abs(std::sin(7.0 * static_cast<double>(f)))) * M_PI / 180;
      Eigen::Vector3d centre = camera.center();
      centre += 0.05 * centre.norm() * axis() + 0.005 * median_depth * axis();
      camera.cam_from_world.linear() =
          Eigen::AngleAxisd(turn, axis()).toRotationMatrix() * camera.cam_from_world.linear();
      camera.cam_from_world.translation() = -(camera.cam_from_world.linear() * centre);
    }
    cameras.push_back(camera);
    std::vector<float>& map =
        depth.emplace_back(static_cast<std::size_t>(set.width) * static_cast<std::size_t>(set.height));
    const double a = 6 * normal(random), b = 6 * normal(random), c = 3 * normal(random);
    std::size_t i = 0;
    for (int y = 0; y < set.height; ++y) {
      for (int x = 0; x < set.width; ++x, ++i) {
        const auto column = static_cast<std::size_t>(
                       std::clamp<long>(std::lround(frame.map.original_x(x)), 0, truth.depth[f].width - 1)),
                   row = static_cast<std::size_t>(
                       std::clamp<long>(std::lround(frame.map.original_y(y)), 0, truth.depth[f].height - 1));
        const double error = 0.07 * std::sin(a * x / set.width + b * y / set.height + c);
        const float value =
            truth.depth[f].values[row * static_cast<std::size_t>(truth.depth[f].width) + column];
        map[i] = (value > 0 ? value : 60) * static_cast<float>(std::exp(error));
      }
    }
  }
  return cameras;
}

int run(int count, char** arguments) {
  std::map<std::string, std::string> options;
  for (int i = 3; i + 1 < count; i += 2) options[arguments[i]] = arguments[i + 1];
  const PredictionFile predictions(arguments[2]);
  std::vector<DepthMap> predicted = predictions.depth(0);
  FrameOptions frame_options;
  frame_options.source = arguments[1];
  frame_options.width = predicted.at(0).width;
  frame_options.gray_side = kMatchingSide;
  const FrameSet set = load_frames(frame_options);
  MatchInput input{set.width, set.height, {}, set.read_rgb, set.read_gray};
  std::vector<Camera> cameras;
  const std::vector<FrameCamera> found = predictions.cameras(0);
  for (std::size_t i = 0; i < set.frames.size(); ++i) {
    const Frame& frame = set.frames[i];
    input.frames.push_back({whole(set)[i], frame.map, frame.original_width, frame.original_height,
                            frame.gray_width, frame.gray_height, frame.camera});
    Camera camera = found[i].camera;
    camera.map = frame.map;
    camera.original_width = frame.original_width;
    camera.original_height = frame.original_height;
    cameras.push_back(camera);
  }
  std::optional<Truth> truth;
  if (options.contains("--truth")) {
    const PredictionFile file(options["--truth"]);
    truth = Truth{file.cameras(0), file.depth(0)};
  }
  std::vector<std::vector<float>> depth;
  if (truth && options.contains("--errors")) {
    cameras = with_errors(set, *truth, static_cast<unsigned>(std::atoi(options["--errors"].c_str())), depth);
  } else {
    for (DepthMap& map : predicted) depth.push_back(std::move(map.values));
  }
  DenseMaps maps(input.space, "depth");
  for (std::size_t f = 0; f < depth.size(); ++f) maps.put_values(static_cast<int>(f), depth[f]);
  depth.clear();
  AdjustOptions adjust;
  if (options.contains("--camera")) adjust.model = camera_model_named(options["--camera"]);

  const double error_before = truth ? depth_error(input, maps, *truth) : 0, begin = seconds();
  const AdjustedScene scene = adjust_scene(input, maps, cameras, adjust, {});
  std::printf("%zu frames, %.2f s: %s; %zu tracks\n", cameras.size(), seconds() - begin,
              scene.summary.c_str(), scene.tracks.size());
  const std::vector<Camera>& result = scene.changed ? scene.cameras : cameras;
  if (truth) {
    std::printf("depth error before %.4f, after %.4f\n", error_before, depth_error(input, maps, *truth));
    print_pose_errors("given", cameras, *truth);
    print_pose_errors("found", result, *truth);
  }
  if (options.contains("--out")) {
    std::vector<FrameCamera> named;
    for (std::size_t i = 0; i < result.size(); ++i)
      named.push_back({set.frames[i].file, set.frames[i].time_s, result[i], 0});
    write_cameras_json(options["--out"], named);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s FRAMES PREDICTIONS [--truth FILE] [--errors SEED] [--out FILE]\n",
                 arguments[0]);
    return 2;
  }
  return run(count, arguments);
}
