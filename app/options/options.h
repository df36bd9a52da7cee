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
  std::string fit = "crop";
  bool strict = false;

  std::string weights;
  std::vector<std::string> heads;
  std::string points = "depth", bundle_adjust = "auto";
  std::string query_points;
  std::string precision = "auto", attention = "auto", device = "auto";
  bool no_autotune = false;
  int64_t threads = 0;

  double conf_percentile = 50;
  std::optional<double> conf_threshold;
  bool mask_black = false, mask_white = false;
  double depth_edge = 0, voxel = 0;
  std::string outliers = "off";
  int64_t max_points = 0;
  int64_t seed = 0;

  std::string out, picture, picture_size = "1280x960", save_predictions;
  bool dry_run = false, quiet = false, verbose = false;

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

/// Calls visit(OptionInfo, field) for every option, in the order of help and --print-config.
template <class SomeOptions, class Visit>
void visit_options(SomeOptions& o, Visit&& visit) {
  using I = OptionInfo;
  constexpr const char *kInput = "Frames", *kModel = "Model", *kScene = "Scene", *kOutput = "Output";
  constexpr double kBig = 1e15;
  visit(I{"frames", kInput, "PATH", "folder, video, list of paths, or .safetensors"}, o.frames);
  visit(I{"fps", kInput, "X", "videos: frames a second [1], or every N-th", {}, 1e-6, 1e6}, o.fps);
  visit(I{"stride", kInput, "N", "", {}, 1, 1e9}, o.stride);
  visit(I{"max-frames", kInput, "N", "at most N, evenly over the sequence", {}, 1, 1e9}, o.max_frames);
  visit(I{"fit", kInput, "crop|pad", "crop tall frames, or pad to a white square", {"crop", "pad"}}, o.fit);
  visit(I{"width", kInput, "N", "network pixels: width, or long side with pad", {}, 14, 16384}, o.width);
  visit(I{"strict", kInput, "", "stop at an unreadable frame, do not skip it"}, o.strict);

  visit(I{"weights", kModel, "FILE", ".ts, .safetensors or .pt [weights/*.ts]"}, o.weights);
  visit(I{"heads",
          kModel,
          "LIST",
          "of camera,depth,points,tracks [what is needed]",
          {"camera", "depth", "points", "tracks"}},
        o.heads);
  visit(I{"points", kModel, "depth|head", "cloud from depth and cameras, or point head", {"depth", "head"}},
        o.points);
  visit(
      I{"bundle-adjust", kModel, "R", "auto|on|off: fit cameras and depth to images", {"auto", "on", "off"}},
      o.bundle_adjust);
  visit(I{"query-points", kModel, "CSV", "to track: x,y lines, network pixels of frame 0"}, o.query_points);
  visit(I{"precision",
          kModel,
          "P",
          "auto|fp32|tf32|bf16|fp16 [bf16 from sm_80]",
          {"auto", "fp32", "tf32", "bf16", "fp16"}},
        o.precision);
  visit(I{"attention",
          kModel,
          "A",
          "auto|strict|split|turbo|half|sdpa, on a GPU",
          {"auto", "strict", "split", "turbo", "half", "sdpa"}},
        o.attention);
  visit(I{"no-autotune", kModel, "", "attention is cut by rule, not by measurement"}, o.no_autotune);
  visit(I{"device", kModel, "D", "auto|cpu|cuda|cuda:N"}, o.device);
  visit(I{"threads", kModel, "N", "CPU threads [0: one per core]", {}, 0, 4096}, o.threads);

  visit(I{"conf-percentile", kScene, "P", "% dropped, lowest confidence first [50]", {}, 0, 100},
        o.conf_percentile);
  visit(I{"conf-threshold", kScene, "X", "keep at least this confidence instead", {}, -kBig, kBig},
        o.conf_threshold);
  visit(I{"mask-black", kScene, "", "drop background: r+g+b < 16, or all > 240"}, o.mask_black);
  visit(I{"mask-white", kScene, "", ""}, o.mask_white);
  visit(I{"depth-edge", kScene, "R", "drop where 3x3 depths differ by over R of it", {}, 0, 1e6},
        o.depth_edge);
  visit(I{"voxel", kScene, "R", "one point per voxel of R x median depth", {}, 0, 1e3}, o.voxel);
  visit(I{"outliers", kScene, "off|on|N,S", "drop what is S deviations off N neighbours"}, o.outliers);
  visit(I{"max-points", kScene, "N", "at most N points, chosen by the seed", {}, 0, kBig}, o.max_points);
  visit(I{"seed", kScene, "N", "", {}, 0, kBig}, o.seed);

  visit(I{"out", kOutput, "PATH", "x.ply, or a folder for scene.*"}, o.out);
  visit(I{"picture", kOutput, "FILE", "x.png or .jpg: the cloud with the cameras"}, o.picture);
  visit(I{"picture-size", kOutput, "WxH", ""}, o.picture_size);
  visit(I{"save-predictions", kOutput, "FILE", "what the network gives, as .safetensors"},
        o.save_predictions);
  visit(I{"dry-run", kOutput, "", "say what would be done, write nothing"}, o.dry_run);
  visit(I{"quiet", kOutput, "", "only warnings and errors; or more than usual"}, o.quiet);
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
/// Sets one option back to its default.
void reset_option(Options& options, std::string_view name);

/// The neighbours and deviations of `outliers`; nothing if off.
struct OutlierFilter {
  int neighbors = 20;
  double std_ratio = 2;
};
std::optional<OutlierFilter> parse_outliers(const std::string& text, const std::string& where);

/// The width and height of `picture-size`.
std::pair<int, int> parse_picture_size(const std::string& text, const std::string& where);

/// The precisions that this choice of `attention` goes with; the first is the one it stands for.
std::vector<std::string> precisions_for(const std::string& attention);

/// Checks what concerns several options at once. Throws std::invalid_argument.
void check_options(const Options& options);

/// All options as YAML that read_options_yaml() reads back.
std::string options_to_yaml(const Options& options);
/// Reads options over those given. Throws std::invalid_argument naming file, line and key: unknown or
/// repeated keys, wrong values, nesting, aliases, more than 64 KiB; std::system_error if the file cannot be
/// read.
void read_options_yaml(const std::string& path, Options& options);
/// The same from a text; `name` stands for the file in errors.
void parse_options_yaml(const std::string& text, const std::string& name, Options& options);

/// The main help page.
std::string help_text();

}  // namespace vggt
