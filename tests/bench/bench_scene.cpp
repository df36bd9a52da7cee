// How fast a scene is made of dense maps: bench_scene [FRAMES] [THREADS] [FOLDER]. A wavy wall seen by frames
// of 392 x 518 pixels, of random confidence; with a folder, the maps lie in a scratch folder there, and the
// PLY beside it.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "app/scene/scene_builder.h"
#include "app/scene/scene_cloud.h"

using namespace vggt;

namespace {

constexpr int kHeight = 392, kWidth = 518;
constexpr std::size_t kPixels = std::size_t{kHeight} * kWidth;

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

Camera camera_at(int frame) {
  Camera camera;
  camera.valid = true;
  camera.width = kWidth;
  camera.height = kHeight;
  camera.k << 400, 0, kWidth / 2.0, 0, 400, kHeight / 2.0, 0, 0, 1;
  camera.cam_from_world.translation() = Eigen::Vector3d(0.01 * frame, 0, 0);
  return camera;
}

/// The highest memory use so far, bytes.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// The builder with all maps.
std::unique_ptr<SceneBuilder> started(const SceneOptions& options, int frames, int threads,
                                      const HostStorage& storage, const std::vector<float>& depth,
                                      const std::vector<float>& confidence) {
  auto builder = std::make_unique<SceneBuilder>(
      options, kWidth, kHeight,
      std::vector<FrameView>(static_cast<std::size_t>(frames), {0, kWidth, 0, kHeight}),
      [](std::size_t frame, std::span<uint8_t> rgb) {
        std::fill(rgb.begin(), rgb.end(), static_cast<uint8_t>(frame));
      },
      std::make_shared<HostSpace>(storage), FrameWork{threads, {}});
  std::vector<Camera> cameras;
  for (int i = 0; i < frames; ++i) cameras.push_back(camera_at(i));
  builder->set_cameras(std::move(cameras));
  for (int i = 0; i < frames; ++i) builder->add({i, 1, depth.data(), nullptr, confidence.data()});
  return builder;
}

}  // namespace

int main(int count, char** arguments) {
  const int frames = count > 1 ? std::atoi(arguments[1]) : 400;
  const int threads = count > 2 ? std::atoi(arguments[2]) : 0;
  const std::filesystem::path folder = count > 3 ? arguments[3] : "/dev/shm";
  const HostStorage storage = count > 3 ? HostStorage{0, folder} : HostStorage{};
  const std::filesystem::path ply = folder / ("bench_scene_" + std::to_string(::getpid()) + ".ply");

  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<float> depth(kPixels), confidence(kPixels);
  for (std::size_t i = 0; i < kPixels; ++i) {
    const double x = static_cast<double>(i % kWidth), y = static_cast<double>(i) / kWidth;
    depth[i] = static_cast<float>(2 + 0.3 * std::sin(x / 40) * std::cos(y / 30)) + 0.005F * unit(random);
  }
  for (float& value : confidence) value = 1 + 5 * unit(random);

  const double pixels = static_cast<double>(frames) * static_cast<double>(kPixels);
  const double begin = seconds();
  auto builder = started({}, frames, threads, storage, depth, confidence);
  const double added = seconds();
  BuiltScene scene = builder->finish();
  const double finished = seconds();
  const SceneCloud cloud(*builder, {}, false, scene);
  cloud.write(ply);
  const double written = seconds();
  std::error_code ignored;
  const auto bytes = static_cast<double>(std::filesystem::file_size(ply));
  std::filesystem::remove(ply, ignored);

  const int used = threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
  std::printf("%d frames, %.1f M pixels, %.1f M points, %d threads\n", frames, pixels * 1e-6,
              static_cast<double>(scene.points) * 1e-6, used);
  std::printf("maps taken while the network runs  %6.3f s  %5.0f MB/s (one thread)\n", added - begin,
              8e-6 * pixels / (added - begin));
  std::printf("quantile, median, counts           %6.3f s  %5.0f MB/s of maps a thread\n", finished - added,
              8e-6 * pixels / (finished - added) / used);
  std::printf("points and PLY                     %6.3f s  %5.0f MB/s of PLY a thread\n", written - finished,
              1e-6 * bytes / (written - finished) / used);

  CloudFilters filters;
  filters.thin_to = 10'000'000;
  const double before = peak_bytes(), thinning = seconds();
  const SceneCloud thinned(*builder, filters, false, scene);
  const double thinned_at = seconds();
  std::printf("thinned to %.2f M points           %6.3f s  %5.0f MB more than before\n",
              static_cast<double>(thinned.size()) * 1e-6, thinned_at - thinning,
              1e-6 * (peak_bytes() - before));
  builder.reset();
  SceneOptions options;
  options.consistent = 2;
  builder = started(options, frames, threads, storage, depth, confidence);
  const double asked = seconds();
  const BuiltScene consistent = builder->finish();
  std::printf("consistent with 2 others: %.1f M  %6.3f s (with the quantile)\n",
              static_cast<double>(consistent.points) * 1e-6, seconds() - asked);
}
