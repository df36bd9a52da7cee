#include "app/run/stage_work.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string_view>

#include "app/adjust/adjust_scene.h"
#include "app/run/device.h"
#include "app/run/model_loader.h"
#include "app/run/rates_cache.h"
#include "io/files/input_file.h"
#include "io/files/numbers.h"
#include "io/files/text.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

// What is not proportional, in units of what is, as measured on two cores: a frame however small, in pixels
// that are decoded, or assessed; a pixel of a picture, in points that are written; a page, in pixels of all
// frames.
constexpr double kFramePixels = 250'000, kHealthPixels = 90'000, kPicturePoints = 6, kPagePixels = 4e6;
constexpr double kAdjustedAlike = 2, kNetworkAlike = 1.25;  // see StageWork
// Seconds on two cores of a Zen 5: of a unit of an adjustment of rendered scenes, of photographs of a kitchen
// and of a video that pans; of a pixel of a refinement, by the refiner's numbers.
constexpr std::array<double, 3> kAdjustedElsewhere{4e-6, 6.5e-6, 1.1e-5};
constexpr double kRefinedElsewhere = 3.2e-13;

/// Of the pixels, by the share that the options drop; less where a filter drops others.
double points_of(const RunPlan& plan, double pixels) {
  const SceneOptions& chosen = plan.scene.builder;
  return chosen.conf_threshold ? pixels : std::max(1.0, pixels * (1 - chosen.conf_percentile / 100));
}

/// Words that tell runs apart whose times cannot be compared.
class Kind {
 public:
  explicit Kind(std::string first) : text_(std::move(first)) {}
  /// A word for what may take the stage much longer, or make it another one.
  Kind& costly(bool is_so, const std::string& text) {
    usual_ = usual_ && !is_so;
    return word(is_so, text);
  }
  Kind& word(bool is_so, const std::string& text) {
    if (is_so) text_ += ", " + text;
    return *this;
  }
  StageWork work(const std::string& stage, double units) const { return {stage, text_, units, usual_}; }

 private:
  std::string text_;
  bool usual_ = true;
};

std::string extension_of(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  if (extension == ".jpeg") return "jpg";
  const std::string word = extension.empty() ? extension : extension.substr(1);
  const bool is_word = !word.empty() && word.size() < 20 &&
                       std::ranges::all_of(word, [](unsigned char c) { return std::isalnum(c) != 0; });
  return is_word ? word : "other";
}

/// Whether a JPEG's image comes in several passes, all of whose coefficients are held meanwhile: it takes
/// twice as long.
bool is_in_passes(const FrameOptions& options, const Frame& frame) {
  const double pixels = static_cast<double>(frame.original_width) * frame.original_height;
  const auto beside =
      static_cast<double>(bytes_beside_pixels(options, frame.original_width, frame.original_height));
  return static_cast<double>(frame.source_bytes) > beside + 4.5 * pixels;  // of which the pixels take 3
}

/// Of several kinds of files the one of most pixels.
std::string main_kind(const FrameOptions& options, const FrameSet& frames) {
  std::map<std::string, double> pixels;
  std::string most;
  for (const Frame& frame : frames.frames) {
    std::string kind = extension_of(frame.file);
    if (kind == "jpg" && is_in_passes(options, frame)) kind += " in passes";
    pixels[kind] += static_cast<double>(frame.original_width) * frame.original_height;
    if (most.empty() || pixels[kind] > pixels[most]) most = kind;
  }
  return most;
}

StageWork frames_work(const RunPlan& plan, const MemoryRequest& request, double pixels,
                      const FrameSource& source) {
  const FrameOptions& frames = plan.frames;
  return Kind(source.kind)
      .word(frames.gray_side > 0, "gray copies")
      .costly(!frames.masks.empty(), "masks")
      .work("frames", source.pixels + pixels + kFramePixels * static_cast<double>(request.frames));
}

StageWork weights_work(const RunPlan& plan, const MemoryRequest& request) {
  const ModelOptions& options = plan.model.options;
  return Kind(extension_of(plan.model.weights.path()))
      .word(true, processor_name(options.device))
      .word(true, precision_name(options.precision))
      .word(options.heads_in_bf16, "heads bf16")
      .word(request.weights_on_host, "on the host")
      .work("weights", static_cast<double>(weight_bytes(request)));
}

/// The rates of scenes differ by up to 18 times, also where number, size and kind of their files are the
/// same: by what their frames share, and by the lenses that are tried. Only frames of the same source tell
/// how long it takes, others what is likely.
StageWork adjust_work(const RunPlan& plan, const MemoryRequest& request, const FrameSource& source) {
  const AdjustOptions& options = plan.adjust.options;
  StageWork work = Kind("matches")
                       .costly(options.model.has_value(), "camera " + plan.given.camera)
                       .costly(options.intrinsics == Known::exactly, "known intrinsics")
                       .costly(options.intrinsics == Known::nearly, "intrinsics to refine")
                       .costly(options.poses == Known::exactly, "known poses")
                       .costly(options.poses == Known::nearly, "poses to refine")
                       .costly(!plan.frames.masks.empty(), "masks")
                       .work("adjustment", adjustment_work(request.frames, source.gray));
  work.comparable = !source.word.empty();
  work.alike = kAdjustedAlike;
  work.source = source.word;
  work.elsewhere = {kAdjustedElsewhere.begin(), kAdjustedElsewhere.end()};
  return work;
}

StageWork refine_work(const RunPlan& plan, double pixels) {
  int64_t numbers = 0;
  for (const auto& [name, shape] : refiner_shapes_of(plan.model.weights))
    numbers += c10::multiply_integers(shape);
  StageWork work = Kind("maps by " + std::to_string(numbers) + " numbers").work("refinement", pixels);
  work.elsewhere = {kRefinedElsewhere * static_cast<double>(numbers)};
  return work;
}

StageWork scene_work(const RunPlan& plan, double pixels) {
  const CloudSource source = plan.scene.source;
  const SceneOptions& chosen = plan.scene.builder;
  const at::Device device = plan.model.options.device;
  return Kind(source == CloudSource::none    ? "none"
              : source == CloudSource::depth ? "depth"
                                             : "points")
      .word(device.is_cuda(), processor_name(device))
      .word(plan.model.options.heads.depth && plan.model.options.heads.points, "both heads")
      .word(chosen.conf_threshold.has_value(), "threshold")
      .word(chosen.depth_edge > 0, "edges")
      .costly(chosen.consistent > 0, "consistent " + std::to_string(chosen.consistent))
      .costly(!plan.frames.masks.empty(), "masks")
      .work("scene", pixels);
}

std::string voxels_word(const CloudFilters& filters) {
  return "voxels " + number_text(filters.voxel);
}

StageWork filters_work(const RunPlan& plan, double points) {
  const CloudFilters& filters = plan.scene.filters;
  const bool thinned = filters.thin_to > 0 && points > static_cast<double>(filters.thin_to);
  return Kind("points")
      .costly(filters.voxel > 0, voxels_word(filters))  // how many points they leave depends on the scene
      .costly(filters.outliers.has_value(), "outliers")
      .costly(filters.max_points > 0, "chosen")
      .costly(thinned, "thinned")
      .word(plan.outputs.paths.picture.has_value() || plan.keep_points, "in memory")
      .work("filters", points);
}

StageWork write_work(const RunPlan& plan, double points) {
  const CloudFilters& filters = plan.scene.filters;
  const OutputPaths& paths = plan.outputs.paths;
  for (const int64_t most : {filters.max_points, filters.thin_to}) {
    if (most > 0) points = std::min(points, static_cast<double>(most));
  }
  if (paths.picture)
    points += kPicturePoints * plan.outputs.picture_width * static_cast<double>(plan.outputs.picture_height);
  return Kind(plan.scene.source == CloudSource::none ? "no points" : "points")
      .costly(plan.scene.builder.normals, "normals")
      .costly(plan.scene.builder.consistent > 0, "consistent")
      .costly(filters.voxel > 0, voxels_word(filters))
      .costly(paths.picture.has_value(), "picture")
      .costly(paths.predictions.has_value(), "predictions")
      .work("write", points);
}

StageWork export_work(const RunPlan& plan, double pixels, const FrameSource& source) {
  const ExportPlan& exports = plan.outputs.exports;
  const bool makes_images = exports.images == ExportedAs::copies ||
                            exports.images == ExportedAs::undistorted ||
                            (exports.needs_depth() && !exports.network_size);
  std::string names;
  for (const std::string& name : plan.given.exports) names += (names.empty() ? "" : " ") + name;
  return Kind(source.kind)
      .costly(true, names)
      .costly(exports.images != ExportedAs::automatic, plan.given.export_images)
      .costly(exports.needs_depth(), plan.given.depth_format)
      .costly(exports.network_size, "network's size")
      .work("export", pixels + (makes_images ? source.pixels : 0));
}

std::string merge_word(const MergeOptions& merge) {
  return "merged " + number_text(merge.ratio) + " and " + number_text(merge.protect) + " from " +
         std::to_string(merge.start) + ", " + std::to_string(merge.refresh) + ", " +
         std::to_string(merge.metric);
}

Kind network_kind(const RunPlan& plan, const MemoryRequest& request, bool limited) {
  return Kind(rates_key(plan.model.config, plan.model.options))
      .word(request.weights_on_host, "weights on the host")
      .word(limited && plan.limits.gpu_allocator, "limited GPU");
}

/// A tracker's time depends on the number of points as well.
StageWork network_work(Kind kind, const MemoryRequest& request, const std::string& stage, double units) {
  return kind.word(stage == "track_head", std::to_string(request.query_points) + " points")
      .work(stage, units);
}

/// Of the file's size and of some of its bytes all along it. Empty where it cannot be read.
std::string word_of(const fs::path& path) try {
  constexpr uint64_t kPieces = 9, kPiece = 1024;
  const InputFile file(path);
  const uint64_t piece = std::min(file.size(), kPiece);
  std::string bytes(kPieces * piece, 0);
  for (uint64_t i = 0; i < kPieces; ++i)
    file.read((file.size() - piece) / (kPieces - 1) * i,
              std::as_writable_bytes(std::span(bytes).subspan(i * piece, piece)));
  return std::to_string(file.size()) + "-" + std::to_string(std::hash<std::string_view>{}(bytes));
} catch (const std::exception&) {
  return {};
}

}  // namespace

FrameSource source_of(const FrameOptions& options, const FrameSet& frames) {
  FrameSource source;
  for (const Frame& frame : frames.frames) {
    const double pixels = static_cast<double>(frame.original_width) * frame.original_height;
    const int longer = std::max({1, frame.original_width, frame.original_height});
    source.pixels += pixels;
    source.gray += pixels * std::pow(std::min(1.0, static_cast<double>(options.gray_side) / longer), 2);
  }
  source.gray = std::min(source.gray, static_cast<double>(options.gray_bytes));
  const std::string file = frames.frames.front().file, own = options.source.filename().string() + "#";
  fs::path first = options.source.parent_path() / file;  // of a list or one image; of paths the file itself
  if (!options.images.empty()) {
    source.kind = "memory";
    first.clear();
  } else if (!options.source.empty() && file.starts_with(own)) {
    // Of a video all frames are decoded up to the last that is wanted, and again where they are counted.
    source.kind = extension_of(options.source);
    first = options.source;
    const Frame& last = frames.frames.back();
    const double passed = 1 + std::strtod(last.file.c_str() + own.size(), nullptr);
    if (source.kind != "safetensors")
      source.pixels = passed * (options.max_frames ? 2 : 1) * last.original_width *
                      static_cast<double>(last.original_height);
  } else {
    source.kind = main_kind(options, frames);
    std::error_code none;
    if (fs::is_directory(options.source, none)) first = options.source / file;
  }
  source.word = word_of(first);
  return source;
}

std::vector<StageWork> more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                                       const std::vector<StageSeconds>& stages, bool limited) {
  const ModelOptions& options = plan.model.options;
  const Kind kind = network_kind(plan, request, limited);
  std::vector<StageWork> works;
  for (const StageSeconds& stage : stages)
    works.push_back(network_work(kind, request, stage.stage, options.device.is_cuda() ? 1 : stage.seconds));
  return works;
}

std::vector<StageWork> network_works(const RunPlan& plan, const MemoryRequest& request,
                                     const std::vector<std::string>& stages) {
  Kind kind = network_kind(plan, request, /*limited=*/true)
                  .word(true, std::to_string(request.width) + "x" + std::to_string(request.height));
  if (request.merge) kind.word(true, merge_word(*request.merge));
  std::vector<StageWork> works;
  for (const std::string& stage : stages) {
    works.push_back(network_work(kind, request, stage, static_cast<double>(request.frames)));
    works.back().alike = kNetworkAlike;
  }
  return works;
}

std::vector<StageWork> stage_works(const RunPlan& plan, const MemoryRequest& request,
                                   const FrameSource& source) {
  const double pixels =
      static_cast<double>(request.frames) * static_cast<double>(request.height * request.width);
  const double points = points_of(plan, pixels), frames = static_cast<double>(request.frames);
  const bool has_scene = plan.scene.source != CloudSource::none;
  const Heads& heads = plan.model.options.heads;
  const ExportPlan& exports = plan.outputs.exports;
  std::vector<StageWork> works = {frames_work(plan, request, pixels, source), weights_work(plan, request)};
  if (has_scene || heads.camera || heads.depth || heads.points) works.push_back(scene_work(plan, pixels));
  if (plan.adjust.wanted && request.frames > 1) works.push_back(adjust_work(plan, request, source));
  if (plan.adjust.refines && request.frames > 1) works.push_back(refine_work(plan, pixels));
  if (has_scene) works.push_back(filters_work(plan, points));
  if (has_scene || plan.outputs.paths.report)
    works.push_back({"health", "frames", pixels + kHealthPixels * frames});
  works.push_back(write_work(plan, points));
  if (!exports.files().empty() || !exports.folders().empty())
    works.push_back(export_work(plan, pixels, source));
  if (plan.outputs.paths.page)
    works.push_back({"page", has_scene ? "points" : "no points", kPagePixels + pixels});
  return works;
}

}  // namespace vggt
