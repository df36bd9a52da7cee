// What a photograph of 12 megapixels costs before the network sees it, beside OpenCV's own ways.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>

#include "io/frames/image_files.h"
#include "io/frames/resize.h"

namespace vggt {
namespace {

constexpr int kWidth = 4000, kHeight = 3000;
constexpr int kFitted = 518, kFittedHeight = 392;  // width and height for the network

// Enlarged: photographs have no noise of single pixels.
const cv::Mat& photograph() {
  static const cv::Mat result = [] {
    cv::Mat noise(kHeight / 8, kWidth / 8, CV_8UC3), large;
    cv::RNG(1).fill(noise, cv::RNG::UNIFORM, 0, 256);
    cv::resize(noise, large, {kWidth, kHeight}, 0, 0, cv::INTER_CUBIC);
    return large;
  }();
  return result;
}

void resize_as_pillow(benchmark::State& state) {
  const RowReader read = [](int y, uint8_t* rgb) {
    std::copy_n(photograph().ptr<uint8_t>(y), 3 * kWidth, rgb);
  };
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        resize_bicubic(kWidth, kHeight, read, {kFitted, kFittedHeight, 0, kFittedHeight}));
  }
}

void resize_as_opencv(benchmark::State& state, int interpolation) {
  cv::Mat small;
  for (auto _ : state) cv::resize(photograph(), small, {kFitted, kFittedHeight}, 0, 0, interpolation);
}

class Jpeg {
 public:
  Jpeg() { cv::imwrite(path_, photograph()); }
  ~Jpeg() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ =
      std::filesystem::temp_directory_path() / ("vggt_" + std::to_string(::getpid()) + ".jpg");
};

void decode_and_fit(benchmark::State& state) {
  const Jpeg jpeg;
  for (auto _ : state) {
    benchmark::DoNotOptimize(fit_image(ImageFile(jpeg.path()).decode(), Fit::crop, kFitted, 14));
  }
}

void decode_alone(benchmark::State& state) {
  const Jpeg jpeg;
  for (auto _ : state) benchmark::DoNotOptimize(cv::imread(jpeg.path()));
}

void repeated(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly()->UseRealTime();
}

BENCHMARK(resize_as_pillow)->Apply(repeated);
BENCHMARK_CAPTURE(resize_as_opencv, area, cv::INTER_AREA)->Apply(repeated);
BENCHMARK_CAPTURE(resize_as_opencv, cubic_aliased, cv::INTER_CUBIC)->Apply(repeated);
BENCHMARK(decode_and_fit)->Apply(repeated);
BENCHMARK(decode_alone)->Apply(repeated);

}  // namespace
}  // namespace vggt

BENCHMARK_MAIN();
