#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vggt {

/// Everything a reconstruction can be told, with its defaults. visit_options() is the one place that names
/// the fields; command line, YAML, --print-config, checks and help come from there.
struct Options {
  std::string frames;
  std::optional<double> fps;
  std::optional<int64_t> stride, max_frames, width;
  std::string fit = "auto", masks;
  bool strict = false;

  std::string weights;
  std::vector<std::string> heads;
  std::string points = "depth";
  std::string query_points;
  std::string precision = "auto", head_precision = "auto", attention = "auto", device = "auto";
  bool no_autotune = false;
  std::string merge = "auto";
  int64_t merge_start = 0;
  double merge_ratio = 0.9, merge_protect = 0.1;
  int64_t merge_seed = 33, merge_refresh = 1, merge_metric = 0;
  std::string gpu_memory, host_memory, scratch;
  bool resume = false;
  int64_t threads = 0;

  std::string bundle_adjust = "auto", refine_depth = "auto", camera = "auto";
  std::string intrinsics, poses;
  std::vector<std::string> refine;
  std::string align;
  std::optional<double> scale;
  std::string up = "none";

  double conf_percentile = 50;
  std::optional<double> conf_threshold;
  bool mask_black = false, mask_white = false;
  double depth_edge = 0;
  int64_t consistent = 0;
  std::optional<double> voxel;
  std::string outliers = "off";
  std::optional<int64_t> max_points;
  int64_t seed = 0;

  std::string out;
  std::vector<std::string> exports;
  std::string export_images = "auto", depth_format = "png", depth_size = "original";
  std::string picture, picture_size = "1280x960", save_predictions;
  bool report = false, open = false, dry_run = false, quiet = false, verbose = false;

  bool out_is_beside = false;  // no option: the program named `out` after the frames

  bool operator==(const Options&) const = default;
};

/// What is known of an option besides its value.
struct OptionInfo {
  const char* name;
  const char* group;
  const char* value = "";                 // how help calls the value; flags have none
  const char* help = "";                  // empty: the option shares the line of the one before it
  std::vector<std::string> choices = {};  // of a text, or of each entry of a list; empty: any
  double min = std::numeric_limits<double>::lowest(), max = std::numeric_limits<double>::max();
};

/// The help of the options one after the other: of one that shares the line of another, where that stands.
class HelpLines {
 public:
  std::string operator()(const OptionInfo& option) {
    if (*option.help == '\0') return "see --" + line_of_;
    line_of_ = option.name;
    return option.help;
  }

 private:
  std::string line_of_;
};

/// Calls visit(OptionInfo, field) for every option, in the order of help and --print-config.
template <class SomeOptions, class Visit>
void visit_options(SomeOptions& o, Visit&& visit) {
  using I = OptionInfo;
  constexpr const char *kInput = "Frames", *kModel = "Model", *kCameras = "Cameras", *kScene = "Scene",
                       *kOutput = "Output";
  constexpr double kBig = 1e15;
  visit(I{"frames", kInput, "PATH", "folder, video, .txt list of paths, .safetensors"}, o.frames);
  visit(I{"fps", kInput, "X", "of a video: X frames a second [1], or every Nth", {}, 1e-6, 1e6}, o.fps);
  visit(I{"stride", kInput, "N", "", {}, 1, 1e9}, o.stride);
  visit(I{"max-frames", kInput, "N", "use at most N frames, spread evenly", {}, 1, 1e9}, o.max_frames);
  visit(I{"fit",
          kInput,
          "crop|pad|whole",
          "what tall frames become [auto]; network width",
          {"auto", "crop", "pad", "whole"}},
        o.fit);
  visit(I{"width", kInput, "N", "", {}, 14, 16384}, o.width);
  visit(I{"masks", kInput, "DIR", "an image a frame by its name: black is not used"}, o.masks);
  visit(I{"strict", kInput, "", "stop at an unreadable frame, do not skip it"}, o.strict);

  visit(I{"weights", kModel, "FILE", "model: .ts, .safetensors, .pt [the small model]"}, o.weights);
  visit(I{"heads",
          kModel,
          "LIST",
          "predict camera,depth,points,tracks [as needed]",
          {"camera", "depth", "points", "tracks"}},
        o.heads);
  visit(I{"points", kModel, "depth|head", "make the cloud from depth or predicted points", {"depth", "head"}},
        o.points);
  visit(I{"query-points", kModel, "CSV", "lines x,y to track: network pixels of frame 0"}, o.query_points);
  visit(I{"precision",
          kModel,
          "P",
          "fp32|tf32|bf16|fp16 [auto], of dense heads",
          {"auto", "fp32", "tf32", "bf16", "fp16"}},
        o.precision);
  visit(I{"head-precision", kModel, "P", "", {"auto", "fp32", "bf16"}}, o.head_precision);
  visit(I{"attention",
          kModel,
          "A",
          "GPU kernel: auto, or see README for the others",
          {"auto", "strict", "split", "turbo", "half", "sdpa"}},
        o.attention);
  visit(I{"no-autotune", kModel, "", "measure and learn nothing of this machine"}, o.no_autotune);
  visit(I{"merge", kModel, "auto|on|off", "merge like tokens", {"auto", "on", "off"}}, o.merge);
  visit(I{"merge-start", kModel, "N", "", {}, 0, 1e9}, o.merge_start);
  visit(I{"merge-ratio", kModel, "R", "as FastVGGT [0.9 0.1 33]", {}, 0, 1}, o.merge_ratio);
  visit(I{"merge-protect", kModel, "R", "", {}, 0, 1}, o.merge_protect);
  visit(I{"merge-seed", kModel, "N", "", {}, 0, kBig}, o.merge_seed);
  visit(I{"merge-metric", kModel, "N", "match by N numbers, every N blocks", {}, 0, 1e9}, o.merge_metric);
  visit(I{"merge-refresh", kModel, "N", "", {}, 1, 1e9}, o.merge_refresh);
  visit(I{"device", kModel, "D", "auto|cpu|cuda|cuda:N|cuda:0,1|all; CPU threads"}, o.device);
  visit(I{"threads", kModel, "N", "", {}, 0, 4096}, o.threads);
  visit(I{"gpu-memory", kModel, "SIZE", "take no more than this, as 6GB"}, o.gpu_memory);
  visit(I{"host-memory", kModel, "SIZE", ""}, o.host_memory);
  visit(I{"scratch", kModel, "DIR", "keep what memory cannot hold in files; go on"}, o.scratch);
  visit(I{"resume", kModel, "", ""}, o.resume);

  visit(I{"bundle-adjust",
          kCameras,
          "auto|on|off",
          "refine cameras and depth by image matches",
          {"auto", "on", "off"}},
        o.bundle_adjust);
  visit(I{"refine-depth",
          kCameras,
          "auto|on|off",
          "then depth, by a network among the weights",
          {"auto", "on", "off"}},
        o.refine_depth);
  visit(I{"camera",
          kCameras,
          "MODEL",
          "auto, or as COLMAP's: simple-pinhole and so on",
          {"auto", "simple-pinhole", "pinhole", "simple-radial", "radial"}},
        o.camera);
  visit(I{"intrinsics", kCameras, "FILE", "known ones: fx,fy,cx,cy or a cameras.json"}, o.intrinsics);
  visit(I{"poses", kCameras, "FILE", "known poses; refine the known: intrinsics,poses"}, o.poses);
  visit(I{"refine", kCameras, "LIST", "", {"intrinsics", "poses"}}, o.refine);
  visit(I{"align", kCameras, "FILE", "move and scale the scene to these poses"}, o.align);
  visit(I{"scale", kCameras, "F", "enlarge the scene; turn it upright (a guess)", {}, 1e-9, 1e9}, o.scale);
  visit(I{"up", kCameras, "auto|none", "", {"auto", "none"}}, o.up);

  visit(I{"conf-percentile", kScene, "P", "drop least sure P % [50], or all < X", {}, 0, 100},
        o.conf_percentile);
  visit(I{"conf-threshold", kScene, "X", "", {}, -kBig, kBig}, o.conf_threshold);
  visit(I{"mask-black", kScene, "", "drop black (r+g+b < 16), white (all > 240) ones"}, o.mask_black);
  visit(I{"mask-white", kScene, "", ""}, o.mask_white);
  visit(I{"depth-edge", kScene, "R", "drop depth edges: 3x3 spread above R x depth", {}, 0, 1e6},
        o.depth_edge);
  visit(I{"consistent", kScene, "N", "keep points whose depth N other frames confirm", {}, 0, 255},
        o.consistent);
  visit(I{"voxel", kScene, "R", "merge points in cubes of side R x median depth", {}, 0, 1e3}, o.voxel);
  visit(I{"outliers", kScene, "off|on|N,S", "drop points far from their N nearest (S sigma)"}, o.outliers);
  visit(I{"max-points", kScene, "N", "keep at most N, at random [10 million, by cubes]", {}, 0, kBig},
        o.max_points);
  visit(I{"seed", kScene, "N", "", {}, 0, kBig}, o.seed);

  visit(I{"out", kOutput, "PATH", "SCENE.ply, or a folder for scene.ply and others"}, o.out);
  visit(I{"export",
          kOutput,
          "colmap,nerfstudio,kitti,glb,depth,confidence,normals",
          "other formats",
          {"colmap", "nerfstudio", "kitti", "glb", "depth", "confidence", "normals"}},
        o.exports);
  visit(I{"export-images",
          kOutput,
          "HOW",
          "auto, refer to originals, copy or undistort them",
          {"auto", "refer", "copy", "undistort"}},
        o.export_images);
  visit(I{"depth-format", kOutput, "png|exr|npy", "S: original, network", {"png", "exr", "npy"}},
        o.depth_format);
  visit(I{"depth-size", kOutput, "S", "", {"original", "network"}}, o.depth_size);
  visit(I{"picture", kOutput, "FILE", "draw cloud and cameras: .png or .jpg"}, o.picture);
  visit(I{"picture-size", kOutput, "WxH", ""}, o.picture_size);
  visit(I{"report", kOutput, "", "write a page for the browser: scene.html"}, o.report);
  visit(I{"save-predictions", kOutput, "FILE", "images, cameras, depth and so on: .safetensors"},
        o.save_predictions);
  visit(I{"open", kOutput, "", "show the result; only say what would be done"}, o.open);
  visit(I{"dry-run", kOutput, "", ""}, o.dry_run);
  visit(I{"quiet", kOutput, "", "print only warnings and errors; print details"}, o.quiet);
  visit(I{"verbose", kOutput, "", ""}, o.verbose);
}

/// Throws std::invalid_argument for what is no name of a device, on this machine or any.
void check_device(const std::string& device);

/// Names of all options.
std::vector<std::string> option_names();

/// Sets one option from text, as the command line and YAML give it; lists are separated by commas. `where`
/// begins the message of the std::invalid_argument for a value that is malformed, out of range or not a
/// choice.
void set_option(Options& options, std::string_view name, const std::string& text, const std::string& where);
/// Whether the option takes several values.
bool takes_list(std::string_view name);
/// Sets one option back to its default.
void reset_option(Options& options, std::string_view name);

/// What `outliers` says: points that are `std_ratio` deviations farther than usual from `neighbors` others
/// go.
struct OutlierOption {
  int neighbors = 20;
  double std_ratio = 2;
};
/// Nothing if off. Throws std::invalid_argument, with `where` in front, for a text that is no choice.
std::optional<OutlierOption> parse_outliers(const std::string& text, const std::string& where);

/// The width and height of `picture-size`.
std::pair<int, int> parse_picture_size(const std::string& text, const std::string& where);

/// The bytes that a text such as 6GB, 500 MB, 1.5GiB or 1000000 says; nothing for an empty one.
std::optional<int64_t> parse_bytes(const std::string& text, const std::string& where);

/// The precisions that this choice of `attention` goes with; the first is the one it stands for.
std::vector<std::string> precisions_for(const std::string& attention);

/// Checks every option, and what concerns several at once. Throws std::invalid_argument.
void check_options(const Options& options);
/// The same for what writes no scene: no output has to be named.
void check_options_but_outputs(const Options& options);

/// A line for each option that is given and that others leave without effect.
std::vector<std::string> idle_options(const Options& options);

/// The main help page.
std::string help_text();

}  // namespace vggt
